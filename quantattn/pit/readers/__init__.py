"""Readers of users' own files; each says how it dates what it reads."""

from quantattn.pit.readers.alfred import read_alfred
from quantattn.pit.readers.alpaca import read_alpaca
from quantattn.pit.readers.benzinga import read_benzinga
from quantattn.pit.readers.djia import read_djia
from quantattn.pit.readers.edgar_sgml import read_edgar_sgml
from quantattn.pit.readers.edgar_submissions import read_edgar_submissions
from quantattn.pit.readers.events_table import read_events
from quantattn.pit.readers.fnspid import read_fnspid
from quantattn.pit.readers.gdelt import read_gdelt
from quantattn.pit.readers.lobster import read_lobster
from quantattn.pit.readers.polygon import read_polygon
from quantattn.pit.readers.price_files import read_price_file, write_prices
from quantattn.pit.readers.price_tables import read_price_tables
from quantattn.pit.readers.prices_table import read_prices
from quantattn.pit.readers.ravenpack import read_ravenpack
from quantattn.pit.readers.registry import Reader, ReaderOption, find_reader, reader, readers
from quantattn.pit.readers.sql import read_sql
from quantattn.pit.readers.sql_files import read_sql_files
from quantattn.pit.readers.stocknet import read_stocknet
from quantattn.pit.readers.tables import read_event_tables
from quantattn.pit.readers.tiingo import read_tiingo
from quantattn.pit.readers.yfinance import read_yfinance

__all__ = [
    "Reader",
    "ReaderOption",
    "find_reader",
    "read_alfred",
    "read_alpaca",
    "read_benzinga",
    "read_djia",
    "read_edgar_sgml",
    "read_edgar_submissions",
    "read_event_tables",
    "read_events",
    "read_fnspid",
    "read_gdelt",
    "read_lobster",
    "read_polygon",
    "read_price_file",
    "read_price_tables",
    "read_prices",
    "read_ravenpack",
    "read_sql",
    "read_sql_files",
    "read_stocknet",
    "read_tiingo",
    "read_yfinance",
    "reader",
    "readers",
    "write_prices",
]
