# SPDX-License-Identifier: Apache-2.0
"""The MQTT 3.1.1 packets that the load generator speaks, and nothing else.

A packet is its first byte (type and flags) and its body; `split` cuts a byte stream into such pairs.
Section numbers are those of the OASIS standard, MQTT Version 3.1.1.
"""

from __future__ import annotations

CONNACK = 0x20
PUBLISH = 0x30
PUBACK = 0x40
PUBREC = 0x50
PUBREL = 0x62
"""The flags 0010 are part of it (§3.6.1)."""
PUBCOMP = 0x70
SUBACK = 0x90
DISCONNECT = b"\xe0\x00"

KEEPALIVE_S = 36_000
"""So long that a client that has nothing to say for the length of a flood need not ping.

Not the longest, 65535: Mosquitto 2.0.21 drops clients at random whose keep-alive is the longest it allows
(mosquitto#3226, #3286).
"""

Packet = tuple[int, bytes]
"""First byte and body."""


class PacketError(ValueError):
    """Bytes that MQTT 3.1.1 does not allow."""


def connect(client_id: str, user: str | None = None, password: str | None = None) -> bytes:
    """CONNECT with a clean session and no will, with user and password or neither (§3.1)."""
    flags, texts = (0x02, [client_id]) if user is None else (0xC2, [client_id, user, password or ""])
    head = _text("MQTT") + bytes([4, flags]) + KEEPALIVE_S.to_bytes(2, "big")
    return _packet(0x10, head + b"".join(map(_text, texts)))


def subscribe(packet_id: int, topic_filter: str, qos: int) -> bytes:
    """SUBSCRIBE to one filter (§3.8)."""
    return _packet(0x82, packet_id.to_bytes(2, "big") + _text(topic_filter) + bytes([qos]))


def publish(topic: bytes, payload: bytes, qos: int = 0, packet_id: int | None = None) -> bytes:
    """PUBLISH, neither retained nor repeated; `packet_id` for QoS 1 and 2 only (§3.3)."""
    identifier = b"" if packet_id is None else packet_id.to_bytes(2, "big")
    return _packet(PUBLISH | qos << 1, len(topic).to_bytes(2, "big") + topic + identifier + payload)


def acknowledge(kind: int, packet_id: int) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP (§3.4–3.7)."""
    return bytes((kind, 2, packet_id >> 8, packet_id & 0xFF))


def read_publish(first: int, body: bytes) -> tuple[bytes, int | None, bytes]:
    """Topic, packet identifier (None at QoS 0) and payload of a PUBLISH; raise PacketError."""
    at = 2 + int.from_bytes(body[:2], "big")
    if first & 0x06 == 0:
        if len(body) < max(2, at):
            raise PacketError("a PUBLISH shorter than its topic")
        return body[2:at], None, body[at:]
    if first & 0x06 == 0x06 or len(body) < at + 2:
        raise PacketError("a PUBLISH of QoS 3 or without its identifier")
    return body[2:at], int.from_bytes(body[at : at + 2], "big"), body[at + 2 :]


def read_identifier(body: bytes) -> int:
    """Return the packet identifier that the body of an acknowledgement begins with; raise PacketError."""
    if len(body) < 2:
        raise PacketError("an acknowledgement without its identifier")
    return int.from_bytes(body[:2], "big")


def split(data: bytes) -> tuple[list[Packet], bytes]:
    """Whole packets at the beginning of `data`, and what is left of it; raise PacketError."""
    packets: list[Packet] = []
    at, end = 0, len(data)
    while at + 1 < end:
        length, body_at = data[at + 1], at + 2
        if length > 0x7F:
            length &= 0x7F
            for shift in (7, 14, 21):
                if body_at == end:
                    return packets, data[at:]
                digit = data[body_at]
                length |= (digit & 0x7F) << shift
                body_at += 1
                if digit < 0x80:
                    break
            else:
                raise PacketError("a length of more than four bytes")
        if body_at + length > end:
            break
        packets.append((data[at], data[body_at : body_at + length]))
        at = body_at + length
    return packets, data[at:]


def _packet(first: int, body: bytes) -> bytes:
    return bytes((first, *_length(len(body)))) + body


def _length(length: int) -> bytes:
    """Seven bits a byte, the lowest first, the eighth says that more follow (§2.2.3)."""
    digits = bytearray()
    while length > 0x7F:
        digits.append(length & 0x7F | 0x80)
        length >>= 7
    digits.append(length)
    if len(digits) > 4:
        raise PacketError("more than 256 MB in a packet")
    return bytes(digits)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return len(encoded).to_bytes(2, "big") + encoded
