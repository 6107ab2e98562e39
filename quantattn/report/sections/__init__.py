"""The sections of the page, one file each: they shape results into words, tables and plots."""
