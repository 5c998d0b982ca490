// Reads examples from bodies: from JSON, and from the parts of a form. The contents of an example stay texts, byte for
// byte. All faults of a body are found before any is thrown.
import type * as z from 'zod'
import type { Fault } from '../../kernel/http/errors.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import type { RawBody } from '../../kernel/http/raw-body.ts'
import { sliceArray, sliceObject } from '../../kernel/json/json-slices.ts'
import type { ValueBudget } from '../../kernel/limits/value-budget.ts'
import { describeIssue } from '../../protocol/fault-messages.ts'
import { decodeText } from '../ingest/multipart.ts'
import { MAX_EXAMPLES, Splits } from './examples.schema.ts'

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

const MAX_METADATA_LENGTH = 64 * 1024
/** The limit for inputs, outputs and metadata. */
const MAX_DEPTH = 64
/** Inputs within an example within a list. Members that are not known may be as deep. */
const MAX_BODY_DEPTH = 512

/** The limit of members other than inputs, outputs and metadata. */
const MAX_MEMBER_LENGTH = 64 * 1024
const MAX_MEMBERS = 100

/** Collects the faults of a body. All its texts share the budget of its values. */
export class BodyReader {
  readonly faults: Fault[] = []
  readonly values: ValueBudget

  constructor({ values }: Pick<RawBody, 'values'>) {
    this.values = values
  }

  fault(type: string, loc: Path, msg: string): undefined {
    this.faults.push({ type, loc, msg })
  }

  throwFaults(): void {
    if (this.faults.length > 0) throw invalidRequest(this.faults)
  }

  decode(bytes: Uint8Array, loc: Path): string | undefined {
    return decodeText(bytes) ?? this.fault('utf8_invalid', loc, 'is not valid UTF-8')
  }

  /** Checks that a text is JSON without building its values. */
  check(text: string, loc: Path, maxDepth = MAX_BODY_DEPTH): string | undefined {
    const fault = this.values.check(text, maxDepth)
    return fault ? this.fault(fault.type, loc, fault.msg) : text
  }

  parse(text: string, loc: Path): { value: unknown } | undefined {
    const fault = this.values.checkBeforeParse(text, MAX_DEPTH)
    return fault ? this.fault(fault.type, loc, fault.msg) : { value: JSON.parse(text) }
  }

  /** A text of an object that is not nested too deep. Null counts as no text. */
  readObject(text: string, loc: Path): string | undefined {
    const checked = this.check(text, loc, MAX_DEPTH)?.trim()
    if (checked === undefined || checked === 'null') return undefined
    return checked[0] === '{' ? text : this.fault('invalid_type', loc, 'must be an object')
  }

  /** Metadata is searched, so the database must be able to store it as JSON. */
  readMetadata(text: string, loc: Path): string | undefined {
    if (text.length > MAX_METADATA_LENGTH)
      return this.fault('too_big', loc, `must be at most ${MAX_METADATA_LENGTH} characters`)
    const object = this.readObject(text, loc)
    if (object === undefined) return undefined
    const parsed = this.parse(text, loc)
    if (!parsed) return undefined
    const normalized = JSON.stringify(parsed.value)
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

export type ExampleSchema = z.ZodObject & z.ZodType<{ split?: string[] | null | undefined }>

/** Reads the members of the schema, and the metadata. Other members are only checked. */
export function readExampleMembers<Schema extends ExampleSchema>(
  reader: BodyReader,
  schema: Schema,
  text: string,
  loc: Path,
): { members: (z.output<Schema> & MemberTexts) | undefined; slices: Map<string, string> } {
  const slices = sliceObject(text, MAX_MEMBERS + 1)
  if (slices.size > MAX_MEMBERS) reader.fault('too_big', loc, `must have at most ${MAX_MEMBERS} members`)
  const given = Object.keys(schema.shape).flatMap(name => {
    const member = slices.get(name)
    const value = member === undefined ? undefined : readMember(reader, member, [...loc, name])
    return value ? [[name, value.value] as const] : []
  })
  const members = reader.readMembers(schema, Object.fromEntries(given), loc)
  const metadata = reader.readMetadata(slices.get('metadata') ?? 'null', [...loc, 'metadata'])
  const splits = reader.readSplits(members?.split, metadata, [...loc, 'metadata'])
  const texts = { ...(metadata !== undefined && { metadata }), ...(splits && { splits }) }
  return { members: members && { ...members, ...texts }, slices }
}

function readMember(reader: BodyReader, text: string, loc: Path): { value: unknown } | undefined {
  if (text.length <= MAX_MEMBER_LENGTH) return reader.parse(text, loc)
  return reader.fault('too_big', loc, `must be at most ${MAX_MEMBER_LENGTH} characters`)
}

function readExample<Schema extends ExampleSchema>(
  reader: BodyReader,
  schema: Schema,
  text: string,
  loc: Path,
): ExampleInput<z.output<Schema>> | undefined {
  if (text.trimStart()[0] !== '{') return reader.fault('invalid_type', loc, 'must be an object')
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

function readBodyText(reader: BodyReader, { bytes }: RawBody): string | undefined {
  const text = reader.decode(bytes, ['body'])
  return text === undefined ? undefined : reader.check(text, ['body'])
}

export function readOneExample<Schema extends ExampleSchema>(
  raw: RawBody,
  schema: Schema,
): ExampleInput<z.output<Schema>> {
  const reader = new BodyReader(raw)
  const text = readBodyText(reader, raw)
  const example = text === undefined ? undefined : readExample(reader, schema, text, ['body'])
  reader.throwFaults()
  return example!
}

export function readExampleList<Schema extends ExampleSchema>(
  raw: RawBody,
  schema: Schema,
): ExampleInput<z.output<Schema>>[] {
  const reader = new BodyReader(raw)
  const text = readBodyText(reader, raw)
  const isList = text?.trimStart()[0] === '['
  if (text !== undefined && !isList) reader.fault('invalid_type', ['body'], 'must be an array')
  const texts = isList ? sliceArray(text, MAX_EXAMPLES + 1) : []
  if (isList && (texts.length === 0 || texts.length > MAX_EXAMPLES))
    reader.fault('too_big', ['body'], `must have 1 to ${MAX_EXAMPLES} examples`)
  reader.throwFaults()
  const examples = texts.map((one, i) => readExample(reader, schema, one, ['body', i]))
  reader.throwFaults()
  return examples as ExampleInput<z.output<Schema>>[]
}
