"""The operator's pages: server-rendered, no build step, nothing fetched from elsewhere; each also answers as ``.json``.

``session`` says who is there, ``views`` collects what a page shows as plain JSON values, ``templates`` show exactly that,
``actions`` turn forms into operations on the log, ``live`` streams changes. The browser's script only adds the keyboard and live
updates: without it every page and form works.
"""
