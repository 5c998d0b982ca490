// Reads examples from bodies: from JSON, and from the parts of a form. What an example holds stays a text, byte for
// byte. All faults of a body are found before any is thrown.
import type * as z from 'zod'
import type { Fault } from '../kernel/errors.ts'
import { invalidRequest } from '../kernel/input.ts'
import { describeJsonError } from '../kernel/json-position.ts'
import { sliceArray, sliceObject } from '../kernel/json-slices.ts'
import type { RawBody } from '../kernel/raw-body.ts'
import { describeIssue } from '../protocol/fault-messages.ts'
import { decodeText } from '../traces/multipart.ts'
import { MAX_EXAMPLES, Splits } from './examples.schema.ts'
import { isObject } from './json-value.ts'

export type Path = (string | number)[]
export type NewAttachment = { name: string; mime_type: string; bytes: Uint8Array<ArrayBuffer> }
/** `splits` is `split`, or else `metadata.dataset_split`. */
export type MemberTexts = { metadata?: string; splits?: string[] }
/** `inputs`, `outputs` and `metadata` are JSON texts. */
export type ExampleInput<Members> = Members &
  MemberTexts & {
    inputs?: string
    outputs?: string
    attachments: NewAttachment[]
    loc: { inputs: Path; outputs: Path }
  }

export const MAX_METADATA_LENGTH = 64 * 1024
const MAX_DEPTH = 64

/** Collects the faults of a body. */
export class BodyReader {
  readonly faults: Fault[] = []

  fault(type: string, loc: Path, msg: string): undefined {
    this.faults.push({ type, loc, msg })
  }

  throwFaults(): void {
    if (this.faults.length > 0) throw invalidRequest(this.faults)
  }

  decode(bytes: Uint8Array, loc: Path): string | undefined {
    return decodeText(bytes) ?? this.fault('utf8_invalid', loc, 'is not valid UTF-8')
  }

  parse(text: string, loc: Path): { value: unknown } | undefined {
    try {
      return { value: JSON.parse(text) }
    } catch {
      return this.fault('json_invalid', loc, describeJsonError(text))
    }
  }

  /** A text of an object that is not nested too deep. Null stands for no text. */
  readObject(text: string, loc: Path): string | undefined {
    const parsed = this.parse(text, loc)
    if (!parsed || parsed.value === null) return undefined
    if (!isObject(parsed.value)) return this.fault('invalid_type', loc, 'must be an object')
    if (depthOf(parsed.value) > MAX_DEPTH)
      return this.fault('too_deep', loc, `is nested deeper than ${MAX_DEPTH} levels`)
    return text
  }

  /** Metadata is searched, so the database must be able to store what it holds. */
  readMetadata(text: string, loc: Path): string | undefined {
    if (text.length > MAX_METADATA_LENGTH)
      return this.fault('too_big', loc, `must be at most ${MAX_METADATA_LENGTH} characters`)
    const object = this.readObject(text, loc)
    if (object === undefined) return undefined
    const normalized = JSON.stringify(JSON.parse(text))
    const escapes = normalized.match(/\\(?:\\|u0000|ud[89a-f]..)/g) ?? []
    if (escapes.some(found => found !== '\\\\'))
      return this.fault('text_invalid', loc, 'must not contain NUL characters or lone surrogates')
    if (hasHugeNumber(text)) return this.fault('number_too_large', loc, 'has a number of more than 100 digits')
    return object
  }

  /** The members of the schema; others are ignored, as everywhere where clients of the contract write. */
  readMembers<Schema extends z.ZodType>(schema: Schema, value: unknown, loc: Path): z.output<Schema> | undefined {
    const result = schema.safeParse(value, { error: describeIssue })
    if (result.success) return result.data
    for (const { code, path, message } of result.error.issues) this.fault(code, [...loc, ...(path as Path)], message)
    return undefined
  }

  /** `split` wins over `metadata.dataset_split`. */
  readSplits(split: string[] | null | undefined, metadata: string | undefined, loc: Path): string[] | undefined {
    if (split != null || metadata === undefined) return split ?? undefined
    const { dataset_split } = JSON.parse(metadata)
    if (dataset_split == null) return undefined
    return this.readMembers(Splits, dataset_split, [...loc, 'dataset_split'])
  }
}

const MAX_DIGITS = 100

/** Postgres writes a number with all of its digits. */
function hasHugeNumber(json: string): boolean {
  let isHuge = false
  const look = (_: string, value: unknown, context?: { source: string }) => {
    if (typeof value !== 'number' || !context) return value
    const { source } = context
    if (source.length > MAX_DIGITS || /e[-+]?\d{4}/i.test(source)) isHuge = true
    return value
  }
  JSON.parse(json, look)
  return isHuge
}

function depthOf(root: object): number {
  let deepest = 0
  const open: [object, number][] = [[root, 1]]
  for (let next = open.pop(); next; next = open.pop()) {
    const [value, depth] = next
    deepest = Math.max(deepest, depth)
    if (depth > MAX_DEPTH) return depth
    for (const member of Object.values(value)) {
      if (typeof member === 'object' && member !== null) open.push([member, depth + 1])
    }
  }
  return deepest
}

export type ExampleSchema = z.ZodType<{ split?: string[] | null | undefined }>

/** The members of the schema, and what an example has besides inputs and outputs. */
export function readExampleMembers<Schema extends ExampleSchema>(
  reader: BodyReader,
  schema: Schema,
  text: string,
  loc: Path,
): { members: (z.output<Schema> & MemberTexts) | undefined; slices: Map<string, string> } {
  const { inputs: _, outputs: __, metadata: ___, ...others } = JSON.parse(text)
  const members = reader.readMembers(schema, others, loc)
  const slices = sliceObject(text)
  const metadata = reader.readMetadata(slices.get('metadata') ?? 'null', [...loc, 'metadata'])
  const splits = reader.readSplits(members?.split, metadata, [...loc, 'metadata'])
  const texts = { ...(metadata !== undefined && { metadata }), ...(splits && { splits }) }
  return { members: members && { ...members, ...texts }, slices }
}

function readExample<Schema extends ExampleSchema>(
  reader: BodyReader,
  schema: Schema,
  text: string,
  loc: Path,
): ExampleInput<z.output<Schema>> | undefined {
  if (!isObject(JSON.parse(text))) return reader.fault('invalid_type', loc, 'must be an object')
  const { slices, members } = readExampleMembers(reader, schema, text, loc)
  const at = { inputs: [...loc, 'inputs'], outputs: [...loc, 'outputs'] }
  const inputs = reader.readObject(slices.get('inputs') ?? 'null', at.inputs)
  const outputs = reader.readObject(slices.get('outputs') ?? 'null', at.outputs)
  return (
    members && {
      ...members,
      ...(inputs !== undefined && { inputs }),
      ...(outputs !== undefined && { outputs }),
      attachments: [],
      loc: at,
    }
  )
}

function readBodyText(reader: BodyReader, { bytes }: RawBody): { text: string; value: unknown } | undefined {
  const text = reader.decode(bytes, ['body'])
  const parsed = text === undefined ? undefined : reader.parse(text, ['body'])
  return parsed && { text: text!, ...parsed }
}

export function readOneExample<Schema extends ExampleSchema>(
  raw: RawBody,
  schema: Schema,
): ExampleInput<z.output<Schema>> {
  const reader = new BodyReader()
  const body = readBodyText(reader, raw)
  const example = body && readExample(reader, schema, body.text, ['body'])
  reader.throwFaults()
  return example!
}

export function readExampleList<Schema extends ExampleSchema>(
  raw: RawBody,
  schema: Schema,
): ExampleInput<z.output<Schema>>[] {
  const reader = new BodyReader()
  const body = readBodyText(reader, raw)
  if (body && !Array.isArray(body.value)) reader.fault('invalid_type', ['body'], 'must be an array')
  const texts = body ? sliceArray(body.text) : []
  if (Array.isArray(body?.value) && (texts.length === 0 || texts.length > MAX_EXAMPLES))
    reader.fault('too_big', ['body'], `must have 1 to ${MAX_EXAMPLES} examples`)
  reader.throwFaults()
  const examples = texts.map((text, i) => readExample(reader, schema, text, ['body', i]))
  reader.throwFaults()
  return examples as ExampleInput<z.output<Schema>>[]
}
