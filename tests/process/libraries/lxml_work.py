"""lxml: trees, paths and a style sheet that all requests share."""

import lxml.html
from lxml import etree

SHARED = etree.fromstring("<a>" + "".join(f"<b i='{number}'>text {number}</b>" for number in range(50)) + "</a>")
SHEET = """<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:template match="/"><o><xsl:value-of select="count(//b)"/></o></xsl:template></xsl:stylesheet>"""
TRANSFORM = etree.XSLT(etree.fromstring(SHEET))
PATH = etree.XPath("//b[@i>40]/text()")


def work(number):
    tree = etree.fromstring(f"<r><x>{number}</x></r>")
    etree.SubElement(tree, "y").text = "z"
    page = lxml.html.fromstring("<div><a href='/x'>link</a><p>text</div>")
    page.make_links_absolute("http://host/")
    return [
        *(etree.tostring(tree).decode(), str(TRANSFORM(SHARED)), [str(text) for text in PATH(SHARED)]),
        *([each.get("i") for each in SHARED][:3], lxml.html.tostring(page).decode()),
    ]
