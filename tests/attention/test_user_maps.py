"""Feature maps of users that do not keep their promises are refused by name."""

from __future__ import annotations

import pytest
import torch

from quantattn.attention import FeatureMap, QueryFeatures, backend_names, linear_attention
from quantattn.errors import FeatureMapError


class Base(FeatureMap):
    name = "stranger"
    positive = True

    def width(self, d):
        return d

    def __call__(self, x):
        return x.abs()


class Casts(Base):
    dtype = torch.float64

    def __call__(self, x):
        return x.abs().to(self.dtype)


class Halves(Casts):
    dtype = torch.float16


class Counts(Casts):
    dtype = torch.int64


class Lists(Base):
    def __call__(self, x):
        return x.abs().tolist()


class Nothing(Base):
    def __call__(self, x):
        return None


class Edits(Base):
    def __call__(self, x):
        return x.abs_()


class Fails(Base):
    def __call__(self, x):
        return x @ torch.ones(x.shape[-1] + 1, 2)


class PlainQuery(Base):
    def map_query(self, x):
        return self(x)


class OddScale(Base):
    def map_query(self, x):
        return QueryFeatures(x.abs(), torch.zeros(3))


class WrongWidth(Base):
    def width(self, d):
        return d + 1


class Negative(Base):
    def __call__(self, x):
        return -x.abs() - 1


MAPS = [Casts, Halves, Counts, Lists, Nothing, Edits, Fails, PlainQuery, OddScale, WrongWidth, Negative]


@pytest.mark.parametrize("backend", [*backend_names(), "auto"])
@pytest.mark.parametrize("kind", MAPS)
def test_refused(kind, backend):
    x = torch.randn(1, 1, 40, 4)
    with pytest.raises(FeatureMapError, match="stranger"):
        linear_attention(x, x.clone(), x.clone(), feature_map=kind(), backend=backend)


@pytest.mark.parametrize("backend", backend_names())
def test_an_honest_one_is_read(backend):
    x = torch.randn(1, 1, 40, 4)
    found = linear_attention(x, x, x, feature_map=Base(), backend=backend).output
    weights = (x.abs() @ x.abs().mT).tril()
    torch.testing.assert_close(found, weights @ x / weights.sum(-1, keepdim=True))
