// Reads examples from the parts of a form: `<id>` with the members of an example, `<id>.inputs`, `<id>.outputs`,
// `<id>.attachment.<name>` and, of a change, `<id>.attachments_operations`. Parts may come in any order.
import type * as z from 'zod'
import type { RawBody } from '../../kernel/http/raw-body.ts'
import { type Part, readMultipart } from '../ingest/multipart.ts'
import {
  BodyReader,
  type ExampleInput,
  type ExampleSchema,
  type NewAttachment,
  type Path,
  readExampleMembers,
} from './example-input.ts'
import { AttachmentName, AttachmentOperations, MAX_EXAMPLES } from './examples.schema.ts'

const MAX_PARTS = 10_000
const PART_NAME =
  /^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:\.(inputs|outputs|attachments_operations|attachments?\.(.*)))?$/is

type ExampleParts = {
  main?: Part
  inputs?: Part
  outputs?: Part
  operations?: Part
  attachments: Map<string, Part>
}
export type UploadedExample<Members> = ExampleInput<Members> & { id: string; operations?: AttachmentOperations }

export function readUploadedExamples<Schema extends ExampleSchema>(
  raw: RawBody,
  schema: Schema,
  { isChange }: { isChange: boolean },
): UploadedExample<z.output<Schema>>[] {
  const parts = readMultipart(raw.bytes, raw.contentType, MAX_PARTS)
  const reader = new BodyReader(raw)
  const byId = groupParts(reader, parts, isChange)
  if (byId.size === 0 || byId.size > MAX_EXAMPLES)
    reader.fault('too_big', ['body'], `must have 1 to ${MAX_EXAMPLES} examples`)
  reader.throwFaults()
  const examples = [...byId].map(([id, one]) => readExample(reader, schema, id, one))
  reader.throwFaults()
  return examples as UploadedExample<z.output<Schema>>[]
}

function groupParts(reader: BodyReader, parts: Part[], isChange: boolean): Map<string, ExampleParts> {
  const byId = new Map<string, ExampleParts>()
  for (const part of parts) {
    const [, id, field, attachment] = PART_NAME.exec(part.name) ?? []
    const loc = ['body', part.name]
    if (id === undefined || (field === 'attachments_operations' && !isChange)) {
      reader.fault('part_unknown', loc, 'is not the name of a part; the name of an example’s part begins with its UUID')
      continue
    }
    const one: ExampleParts = byId.get(id.toLowerCase()) ?? { attachments: new Map() }
    byId.set(id.toLowerCase(), one)
    if (!hasDeclaredLength(part)) reader.fault('length_mismatch', loc, 'has another length than it declares')
    if (attachment !== undefined) {
      if (one.attachments.has(attachment)) reader.fault('repeated', loc, 'is sent twice')
      one.attachments.set(attachment, part)
    } else {
      const place = field === undefined ? 'main' : PLACES[field.toLowerCase() as keyof typeof PLACES]
      if (one[place]) reader.fault('repeated', loc, 'is sent twice')
      one[place] = part
    }
  }
  return byId
}
const PLACES = { inputs: 'inputs', outputs: 'outputs', attachments_operations: 'operations' } as const

function hasDeclaredLength({ headers, parameters, bytes }: Part): boolean {
  const declared = headers.get('content-length') ?? parameters.get('length')
  return declared === undefined || Number(declared) === bytes.byteLength
}

function readExample<Schema extends ExampleSchema>(
  reader: BodyReader,
  schema: Schema,
  id: string,
  parts: ExampleParts,
): UploadedExample<z.output<Schema>> | undefined {
  const loc = { inputs: ['body', `${id}.inputs`], outputs: ['body', `${id}.outputs`] }
  const readPart = (part: Part | undefined, at: Path) => {
    const text = part && reader.decode(part.bytes, at)
    return text === undefined ? undefined : reader.readObject(text, at)
  }
  const inputs = readPart(parts.inputs, loc.inputs)
  const outputs = readPart(parts.outputs, loc.outputs)
  const operations = readPart(parts.operations, ['body', `${id}.attachments_operations`])
  const attachments = [...parts.attachments].flatMap(([name, part]) => readAttachment(reader, name, part))
  if (!parts.main) return reader.fault('missing', ['body', id], 'is required; its other parts are there')
  const main = readPart(parts.main, ['body', id]) ?? '{}'
  const { slices, members } = readExampleMembers(reader, schema, main, ['body', id])
  for (const name of ['inputs', 'outputs'] as const)
    if (slices.has(name)) reader.fault('inline_not_allowed', ['body', id, name], `must be the part \`${id}.${name}\``)
  if (!members) return undefined
  return {
    ...members,
    id,
    ...(inputs !== undefined && { inputs }),
    ...(outputs !== undefined && { outputs }),
    ...(operations !== undefined && {
      operations: reader.readMembers(AttachmentOperations, JSON.parse(operations), [
        'body',
        `${id}.attachments_operations`,
      ])!,
    }),
    attachments,
    loc,
  }
}

/** It becomes a header of the answer to a download. */
const MEDIA_TYPE = /^[\w!#$&^.+-]{1,100}\/[\w!#$&^.+-]{1,100}$/

function readAttachment(reader: BodyReader, name: string, { mediaType, bytes }: Part): NewAttachment[] {
  const known = reader.readMembers(AttachmentName, name, ['body', 'attachment'])
  const mime_type = MEDIA_TYPE.test(mediaType) ? mediaType : 'application/octet-stream'
  return known === undefined ? [] : [{ name, mime_type, bytes }]
}
