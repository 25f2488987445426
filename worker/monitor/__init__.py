"""The monitor: our own pages and API, with Flower behind them."""
