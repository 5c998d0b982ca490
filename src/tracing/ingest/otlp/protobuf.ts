// Decodes an ExportTraceServiceRequest in protobuf. The numbers of the fields are those of opentelemetry-proto.
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import {
  type Attributes,
  DecodeLimits,
  fromDouble,
  newEvent,
  newSpan,
  type ResourceSpans,
  type Span,
  type SpanEvent,
  toValue,
  UndecodableSpans,
  type Value,
} from './spans.ts'

/** The limit is above the fields of spans with as many values as are allowed. */
const MAX_FIELDS = 4_000_000

class Source {
  readonly reader: BinaryReader
  readonly limits = new DecodeLimits()
  /** The depth of lists and objects within an attribute. */
  depth = 0
  /** All that were read, also those that are skipped: each takes two bytes at least. */
  fields = 0

  constructor(bytes: Uint8Array) {
    this.reader = new BinaryReader(bytes)
  }
}

type Field<T> = [wireType: WireType, read: (target: T, source: Source) => void]
type Message<T> = Record<number, Field<T>>

/** A field that is not known, or has another type, is skipped. Of a field that is repeated in vain, the last counts. */
function readFields<T>(message: Message<T>, target: T, source: Source, end: number): T {
  const { reader } = source
  while (reader.pos < end) {
    if (++source.fields > MAX_FIELDS) throw new UndecodableSpans(`it has more than ${MAX_FIELDS} fields`)
    const [number, wireType] = reader.tag()
    const field = message[number]
    if (field?.[0] === wireType) field[1](target, source)
    else reader.skip(wireType, number)
  }
  if (reader.pos > end) throw new UndecodableSpans('a field is longer than its message')
  return target
}

function readMessage<T>(message: Message<T>, target: T, source: Source): T {
  const { reader } = source
  const length = reader.uint32()
  const end = reader.pos + length
  if (end > reader.len) throw new UndecodableSpans('a message is longer than the body')
  return readFields(message, target, source, end)
}

const { LengthDelimited, Varint, Bit64 } = WireType
const STRICT_UTF8 = true
const text = <T>(assign: (target: T, text: string) => void): Field<T> => [
  LengthDelimited,
  (target, { reader }) => assign(target, reader.string(STRICT_UTF8)),
]
const id = <T>(assign: (target: T, hex: string) => void): Field<T> => [
  LengthDelimited,
  (target, { reader }) => assign(target, Buffer.from(reader.bytes()).toString('hex')),
]
const time = <T>(assign: (target: T, nanoseconds: bigint) => void): Field<T> => [
  Bit64,
  (target, { reader }) => assign(target, BigInt(reader.fixed64())),
]
const within = <T>(read: (target: T, source: Source) => void): Field<T> => [LengthDelimited, read]

type Holder = { value: Value }
type KeyValue = Holder & { key: string }

function readNested<T>(message: Message<T>, target: T, source: Source): T {
  source.depth += 1
  readMessage(message, target, source)
  source.depth -= 1
  return target
}

function readValue(source: Source): Value {
  source.limits.countValue(source.depth)
  return readMessage(ANY_VALUE, { value: null }, source).value
}

const ANY_VALUE: Message<Holder> = {
  1: text((holder, value) => {
    holder.value = value
  }),
  2: [
    Varint,
    (holder, { reader }) => {
      holder.value = reader.bool()
    },
  ],
  3: [
    Varint,
    (holder, { reader }) => {
      holder.value = toValue(BigInt(reader.int64()))
    },
  ],
  4: [
    Bit64,
    (holder, { reader }) => {
      holder.value = fromDouble(reader.double())
    },
  ],
  5: within((holder, source) => {
    holder.value = readNested(ARRAY_VALUE, [], source)
  }),
  6: within((holder, source) => {
    holder.value = Object.fromEntries(readNested(KEY_VALUE_LIST, new Map(), source))
  }),
  7: within((holder, { reader }) => {
    holder.value = Buffer.from(reader.bytes()).toString('base64')
  }),
}
const ARRAY_VALUE: Message<Value[]> = { 1: within((values, source) => values.push(readValue(source))) }
const KEY_VALUE: Message<KeyValue> = {
  1: text((pair, key) => {
    pair.key = key
  }),
  2: within((pair, source) => {
    pair.value = readValue(source)
  }),
}

function readAttribute(attributes: Attributes, source: Source): void {
  source.limits.countValue(source.depth)
  const { key, value } = readMessage(KEY_VALUE, { key: '', value: null }, source)
  attributes.set(key, value)
}
const KEY_VALUE_LIST: Message<Attributes> = { 1: within(readAttribute) }

const EVENT: Message<SpanEvent> = {
  1: time((event, nanoseconds) => {
    event.nanoseconds = nanoseconds
  }),
  2: text((event, name) => {
    event.name = name
  }),
  3: within((event, source) => readAttribute(event.attributes, source)),
}
const STATUS: Message<Span['status']> = {
  2: text((status, message) => {
    status.message = message
  }),
  3: [
    Varint,
    (status, { reader }) => {
      status.code = reader.int32()
    },
  ],
}
const SPAN: Message<Span> = {
  1: id((span, hex) => {
    span.trace_id = hex
  }),
  2: id((span, hex) => {
    span.span_id = hex
  }),
  4: id((span, hex) => {
    span.parent_span_id = hex
  }),
  5: text((span, name) => {
    span.name = name
  }),
  7: time((span, nanoseconds) => {
    span.start = nanoseconds
  }),
  8: time((span, nanoseconds) => {
    span.end = nanoseconds
  }),
  9: within((span, source) => readAttribute(span.attributes, source)),
  11: within((span, source) => {
    source.limits.countGroup()
    span.events.push(readMessage(EVENT, newEvent(), source))
  }),
  15: within((span, source) => readMessage(STATUS, span.status, source)),
}
const SCOPE_SPANS: Message<Span[]> = {
  2: within((spans, source) => {
    source.limits.countSpan()
    spans.push(readMessage(SPAN, newSpan(), source))
  }),
}
const RESOURCE: Message<Attributes> = { 1: within(readAttribute) }
const RESOURCE_SPANS: Message<ResourceSpans> = {
  1: within((target, source) => readMessage(RESOURCE, target.resource, source)),
  2: within((target, source) => readMessage(SCOPE_SPANS, target.spans, source)),
}
const TRACES_DATA: Message<ResourceSpans[]> = {
  1: within((all, source) => {
    source.limits.countGroup()
    all.push(readMessage(RESOURCE_SPANS, { resource: new Map(), spans: [] }, source))
  }),
}

/** Throws for bytes that are not such a message, and for one beyond the limits. */
export function decodeProtobuf(bytes: Uint8Array): ResourceSpans[] {
  return readFields(TRACES_DATA, [], new Source(bytes), bytes.byteLength)
}
