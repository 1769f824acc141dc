"""One rewrite of an ONNX model's bytes: look rows up before they are dequantised, not after.

The model keeps its word table as int8 rows with one scale a row, and its graph reads::

    Cast(table int8 → float) → Mul(· , scale) → Gather(· , token ids)

ONNX Runtime folds the first two into a constant when it loads: 47 MB of floats of which a text uses some forty rows. Gathering
first — ``Gather(table)``, ``Cast``, ``Gather(scale)``, ``Mul`` — multiplies the same numbers in the same way, row by row, so the
vectors are bit for bit the same (a test holds that) and the 47 MB are never made.

ONNX files are protocol buffers; the few fields that matter are read here directly, because the ``onnx`` package is larger than all
that it would save. Whatever does not fit the pattern exactly is left as it is.

Field numbers (onnx.proto3): ModelProto.graph 7; GraphProto.node 1, .initializer 5; NodeProto.input 1, .output 2, .name 3,
.op_type 4, .attribute 5, .domain 7; TensorProto.dims 1, .data_type 2, .name 8; AttributeProto.name 1, .i 3, .type 20.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_GRAPH, _NODE, _INITIALIZER = 7, 1, 5
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT, _INT8 = 1, 3
_ATTRIBUTE_INT = 2


@dataclass(frozen=True, slots=True)
class _Node:
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    op: str
    domain: str
    attributes: dict[str, int]


def gather_first(model: bytes) -> bytes:
    """The model with quantised row tables gathered before they are dequantised; the same bytes where there are none.

    Raises:
        ValueError: the bytes are not a protocol buffer.
    """
    fields = list(_fields(memoryview(model)))
    graphs = [field for field in fields if field[0] == _GRAPH]
    if len(graphs) != 1:
        return model
    graph = _rewrite(graphs[0][2])
    if graph is None:
        return model
    return b"".join(_record(_GRAPH, graph) if number == _GRAPH else bytes(raw) for number, raw, _ in fields)


def _rewrite(graph: memoryview) -> bytes | None:
    fields = list(_fields(graph))
    nodes = [_node(body) if number == _NODE else None for number, _, body in fields]
    tensors = dict(_tensor(body) for number, _, body in fields if number == _INITIALIZER)
    makers = {node.outputs[0]: node for node in nodes if node and len(node.outputs) == 1}
    uses: dict[str, int] = {}
    for node in nodes:
        for name in node.inputs if node else ():
            uses[name] = uses.get(name, 0) + 1

    dropped: set[str] = set()
    replaced: dict[str, bytes] = {}
    for node in nodes:
        found = node and _quantised_lookup(node, makers, tensors, uses)
        if node and found:
            table, scale, middle = found
            dropped.update(middle)
            replaced[node.outputs[0]] = _lookup(table, scale, node.inputs[1], node.outputs[0])
    if not replaced:
        return None

    kept: list[bytes] = []
    for (_, raw, _body), node in zip(fields, nodes, strict=True):
        name = node.outputs[0] if node and node.outputs else ""
        if name not in dropped:
            kept.append(replaced[name] if name in replaced else bytes(raw))
    return b"".join(kept)


def _quantised_lookup(
    gather: _Node, makers: dict[str, _Node], tensors: dict[str, tuple[int, tuple[int, ...]]], uses: dict[str, int]
) -> tuple[str, str, tuple[str, str]] | None:
    """Table, scale and the two names in between, where ``gather`` reads rows of ``Cast(table) * scale`` and nobody else does."""
    if gather.op != "Gather" or gather.domain or gather.attributes.get("axis", 0) != 0 or len(gather.inputs) != 2:
        return None
    product = makers.get(gather.inputs[0])
    if product is None or product.op != "Mul" or product.domain or len(product.inputs) != 2:
        return None
    cast = makers.get(product.inputs[0])
    if cast is None or cast.op != "Cast" or cast.domain or len(cast.inputs) != 1 or cast.attributes != {"to": _FLOAT}:
        return None
    table, scale = cast.inputs[0], product.inputs[1]
    if uses[product.outputs[0]] != 1 or uses[cast.outputs[0]] != 1 or table not in tensors or scale not in tensors:
        return None
    (table_type, table_shape), (scale_type, scale_shape) = tensors[table], tensors[scale]
    per_row = len(table_shape) == 2 and scale_shape == (table_shape[0], 1)
    if table_type != _INT8 or scale_type != _FLOAT or not per_row:
        return None
    return table, scale, (cast.outputs[0], product.outputs[0])


def _lookup(table: str, scale: str, rows: str, output: str) -> bytes:
    """The four nodes that take rows and scales first, as a graph's fields."""
    row, number, factor = (f"{output}/{part}" for part in ("row", "number", "factor"))
    to_float = _record(1, b"to") + _tag(3, _VARINT) + _varint(_FLOAT) + _tag(20, _VARINT) + _varint(_ATTRIBUTE_INT)
    nodes = [
        (("Gather", (table, rows), row), b""),
        (("Cast", (row,), number), _record(5, to_float)),
        (("Gather", (scale, rows), factor), b""),
        (("Mul", (number, factor), output), b""),
    ]
    written = b""
    for (op, inputs, result), attributes in nodes:
        body = b"".join(_record(1, name.encode()) for name in inputs)
        body += _record(2, result.encode()) + _record(4, op.encode()) + attributes
        written += _record(_NODE, body)
    return written


def _node(body: memoryview) -> _Node:
    inputs, outputs, op, domain = [], [], "", ""
    attributes: dict[str, int] = {}
    for number, _, value in _fields(body):
        text = bytes(value).decode() if number in (1, 2, 4, 7) else ""
        if number == 1:
            inputs.append(text)
        elif number == 2:
            outputs.append(text)
        elif number == 4:
            op = text
        elif number == 7:
            domain = text
        elif number == 5:
            parts = {key: part for key, _, part in _fields(value)}
            attributes[bytes(parts.get(1, b"")).decode()] = _number(parts[3]) if 3 in parts else 0
    return _Node(tuple(inputs), tuple(outputs), op, domain, attributes)


def _tensor(body: memoryview) -> tuple[str, tuple[int, tuple[int, ...]]]:
    """An initializer's name, element type and shape."""
    name, kind = "", 0
    shape: list[int] = []
    for number, raw, value in _fields(body):
        if number == 1 and raw[0] & 7 == _BYTES:
            at = 0
            while at < len(value):
                size, at = _read_varint(value, at)
                shape.append(size)
        elif number == 1:
            shape.append(_number(value))
        elif number == 2:
            kind = _number(value)
        elif number == 8:
            name = bytes(value).decode()
    return name, (kind, tuple(shape))


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Field number, the whole field as written, and its value, for each field of a message."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _read_varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value = at
            _, at = _read_varint(message, at)
        elif kind == _BYTES:
            size, value = _read_varint(message, at)
            at = value + size
        elif kind in (_FIXED64, _FIXED32):
            value = at
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("not an ONNX model: unknown wire type")
        if at > len(message):
            raise ValueError("not an ONNX model: a field runs past the end")
        yield tag >> 3, message[start:at], message[value:at]


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    result = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
    raise ValueError("not an ONNX model: a number runs past the end")


def _number(value: memoryview) -> int:
    return _read_varint(value, 0)[0]


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _tag(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _record(number: int, body: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(body)) + body
