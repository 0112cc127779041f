"""Small files of the true formats, made here."""

import gzip
import hashlib
import json
import struct
from pathlib import Path

SPLITS = ("train", "dev", "test")


def write_jsonl(path: Path, records: list[dict]) -> Path:
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_lines(path: Path, lines: list[str]) -> Path:
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def varint(value: int) -> bytes:
    out = b""
    while True:
        value, low = value >> 7, value & 0x7F
        if not value:
            return out + bytes([low])
        out += bytes([low | 0x80])


def field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def tf_example(features: dict[str, bytes]) -> bytes:
    """A serialised tf.Example of bytes features, by the protocol's own rules."""
    entries = (
        field(1, field(1, key.encode()) + field(2, field(1, field(1, value))))
        for key, value in features.items()
    )
    return field(1, b"".join(entries))


def write_bin(path: Path, pairs: list[tuple[str, list[str]]]) -> Path:
    """See's chunk: article as text, abstract as sentences in tags."""
    content = b""
    for article, sentences in pairs:
        abstract = " ".join(f"<s> {sentence} </s>" for sentence in sentences)
        record = tf_example({"article": article.encode(), "abstract": abstract.encode()})
        content += struct.pack("<q", len(record)) + record
    path.write_bytes(content)
    return path


def write_story(folder: Path, url: str, paragraphs: list[str], highlights: list[str]) -> str:
    """A story file called after its url's hash, as the archives have them."""
    name = hashlib.sha1(url.encode()).hexdigest()
    text = "\n\n".join([*paragraphs, *(part for h in highlights for part in ("@highlight", h))])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.story").write_text(text, encoding="utf-8")
    return name


def nitf(id: str, year: int, paragraphs: list[str], abstract: str) -> str:
    """An article as LDC2008T19 writes it."""
    body = "\n".join(f"        <p>{p}</p>" for p in paragraphs)
    lead = f"        <p>{paragraphs[0]}</p>" if paragraphs else ""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE nitf SYSTEM "http://www.nitf.org/IPTC/NITF/3.3/specification/dtd/nitf-3-3.dtd">
<nitf change.date="June 10, 2005" change.time="19:30" version="-//IPTC//DTD NITF 3.3//EN">
  <head>
    <title>A Title</title>
    <meta content="{year}" name="publication_year"/>
    <docdata><doc-id id-string="{id}"/></docdata>
    <pubdata date.publication="{year}0105T000000" name="The New York Times"/>
  </head>
  <body>
    <body.head>
      <hedline><hl1>A Title</hl1></hedline>
      <abstract>
        <p>{abstract}</p>
      </abstract>
    </body.head>
    <body.content>
      <block class="lead_paragraph">
{lead}
      </block>
      <block class="full_text">
{body}
      </block>
    </body.content>
  </body>
</nitf>
"""
