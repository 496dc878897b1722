"""Requests over plain HTTP, without the certificates that httpx would load for each of them."""

from functools import partial

import httpx

get = partial(httpx.get, verify=False)
post = partial(httpx.post, verify=False)
