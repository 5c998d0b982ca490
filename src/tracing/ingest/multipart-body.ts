// Reads runs, attachments and feedback from the parts of a multipart body. The name of a part says to which it belongs:
// `post.<run id>`, `patch.<run id>.inputs`, `attachment.<run id>.<name>`, `feedback.<feedback id>`.
import type { Fault } from '../../kernel/http/errors.ts'
import type { RawBody } from '../../kernel/http/raw-body.ts'
import type { ValueBudget } from '../../kernel/limits/value-budget.ts'
import { Uuid } from '../../protocol/wire.ts'
import { NewFeedbackBody } from '../feedback/feedback.schema.ts'
import { toNewFeedback } from '../feedback/store-feedback.ts'
import type { Attachment, NewFeedback, RunOperation } from '../store/store.ts'
import { MAX_OPERATIONS } from './ingestion.schema.ts'
import { type Part, readMultipart } from './multipart.ts'
import {
  checkKind,
  decodeJson,
  type MemberTexts,
  parseMembers,
  type ReadRuns,
  readOperation,
  sliceMembers,
  TOO_MANY_OPERATIONS,
} from './read-operation.ts'

/** A run has seven parts and its attachments. */
const MAX_PARTS = 20 * MAX_OPERATIONS
/** Each is put into the object store on its own, within the time of the request. */
const MAX_ATTACHMENTS = 1000
/** Members of feedback have at most 64 KiB each. */
const MAX_FEEDBACK_LENGTH = 512 * 1024
/** The same limit as for other bodies. */
const MAX_FEEDBACK_DEPTH = 64
/** Further ones only cost time. */
const MAX_FAULTS = 100
/** The parts that are members of a run. A run may have the last three inline. */
const FIELDS = ['inputs', 'outputs', 'events', 'extra', 'serialized', 'error']
const NEVER_INLINE = ['inputs', 'outputs', 'events']

type Kind = RunOperation['kind']
/** `main` is null where its part is not valid, and undefined where it has none. */
type SentRun = {
  kind: Kind
  id: string
  main: MemberTexts | null | undefined
  fields: MemberTexts
  loc: Fault['loc']
}
type SentAttachment = { id: string; attachment: Attachment; loc: Fault['loc'] }

/** All faults at once; of the framing, the first one. */
export function readMultipartBody({ bytes, contentType, values }: RawBody): ReadRuns {
  const faults: Fault[] = []
  const runs = new Map<string, SentRun>()
  const attachments: SentAttachment[] = []
  const feedback: NewFeedback[] = []
  const names = new Set<string>()
  for (const part of readMultipart(bytes, contentType, MAX_PARTS)) {
    const loc = ['body', part.name]
    checkHeaders(part, loc, faults)
    const [event = '', givenId, field, ...more] = part.name.split('.')
    const { data: id } = Uuid.safeParse(givenId)
    const name = [event, id, field, ...more].join('.')
    if (names.has(name)) faults.push({ type: 'part_repeated', loc, msg: 'is sent twice' })
    names.add(name)
    if (id === undefined || more.length > 0) faults.push({ type: 'part_unknown', loc, msg: PART_NAMES })
    else if (event === 'post' || event === 'patch')
      addRunPart(runs, { kind: event, id, field, part, values, loc }, faults)
    else if (event === 'attachment' && field) attachments.push({ id, attachment: toAttachment(field, part), loc })
    else if (event === 'feedback' && field === undefined) addFeedback(feedback, { id, part, values, loc }, faults)
    else faults.push({ type: 'part_unknown', loc, msg: PART_NAMES })
    const tooMany = findTooMany(runs.size, attachments.length)
    if (tooMany) faults.push({ type: 'too_big', loc: ['body'], msg: tooMany })
    if (tooMany || faults.length >= MAX_FAULTS) break
  }
  const operations = [...runs.values()].flatMap(run => toOperation(run, faults) ?? [])
  for (const { id, attachment, loc } of attachments) {
    const operation = operations.find(one => one.id === id)
    if (operation) operation.attachments = [...(operation.attachments ?? []), attachment]
    else if (!runs.has(`post.${id}`) && !runs.has(`patch.${id}`))
      faults.push({ type: 'run_missing', loc, msg: 'belongs to a run that is not in this request' })
  }
  return { operations, feedback, faults }
}

function findTooMany(runs: number, attachments: number): string | undefined {
  if (runs > MAX_OPERATIONS) return TOO_MANY_OPERATIONS
  return attachments > MAX_ATTACHMENTS ? `must have at most ${MAX_ATTACHMENTS} attachments` : undefined
}

const PART_NAMES =
  'must be named `post.<run id>` or `patch.<run id>`, perhaps with a member behind it such as `.inputs`, ' +
  '`attachment.<run id>.<name>` with a name without dots, or `feedback.<id>`'

function checkHeaders({ headers, parameters, bytes }: Part, loc: Fault['loc'], faults: Fault[]): void {
  const lengths = [headers.get('content-length'), parameters.get('length')].filter(length => length !== undefined)
  if (lengths.length === 0) {
    const msg = 'needs its length: as the header `Content-Length`, or as the parameter `length` of its `Content-Type`'
    faults.push({ type: 'length_missing', loc, msg })
  } else if (lengths.some(length => length !== String(bytes.byteLength)))
    faults.push({
      type: 'length_mismatch',
      loc,
      msg: `has ${bytes.byteLength} bytes, and another length in its headers`,
    })
  if (headers.has('content-encoding'))
    faults.push({ type: 'encoding_unsupported', loc, msg: 'has an encoding of its own; compress the whole body' })
}

const toAttachment = (name: string, { mediaType, bytes }: Part): Attachment => ({
  name,
  type: mediaType || 'application/octet-stream',
  bytes,
})

type SentJson = { id: string; part: Part; values: ValueBudget; loc: Fault['loc'] }
type RunPart = SentJson & { kind: Kind; field: string | undefined }

/** Fields that are not known are ignored, as unknown members are. */
function addRunPart(
  runs: Map<string, SentRun>,
  { kind, id, field, part, values, loc }: RunPart,
  faults: Fault[],
): void {
  const name = `${kind}.${id}`
  const run: SentRun = runs.get(name) ?? { kind, id, main: undefined, fields: new Map(), loc: ['body', name] }
  runs.set(name, run)
  if (field !== undefined && !FIELDS.includes(field)) return
  const text = readJson(part, values, loc, faults)
  if (field !== undefined) run.fields.set(field, text ?? 'null')
  else run.main = text && checkKind('object', text, loc, faults) ? sliceMembers(text, loc, faults) : null
}

function addFeedback(feedback: NewFeedback[], { id, part, values, loc }: SentJson, faults: Fault[]): void {
  const text = readJson(part, values, loc, faults)
  if (text === undefined || !checkKind('object', text, loc, faults)) return
  if (text.length > MAX_FEEDBACK_LENGTH) return void faults.push({ type: 'too_big', loc, msg: 'is too long' })
  const fault = values.checkBeforeParse(text, MAX_FEEDBACK_DEPTH)
  if (fault) return void faults.push({ ...fault, loc })
  const body = parseMembers(NewFeedbackBody, { id, ...JSON.parse(text) }, loc, faults)
  if (body) feedback.push(toNewFeedback(body, loc, faults))
}

function readJson(
  { mediaType, bytes }: Part,
  values: ValueBudget,
  loc: Fault['loc'],
  faults: Fault[],
): string | undefined {
  if (mediaType !== 'application/json' && mediaType !== '')
    faults.push({ type: 'media_type_unsupported', loc, msg: 'must have the content type application/json' })
  return decodeJson(bytes, values, loc, faults)?.trim()
}

function toOperation({ kind, id, main, fields, loc }: SentRun, faults: Fault[]): RunOperation | null {
  if (main === undefined)
    faults.push({ type: 'run_missing', loc, msg: 'is missing: the parts of a run are sent together with it' })
  if (!main) return null
  const members: MemberTexts = new Map(main)
  for (const name of NEVER_INLINE) {
    if (!isGiven(members.get(name))) continue
    const msg = `is not allowed inline; send it as a part of its own, named \`${kind}.${id}.${name}\``
    faults.push({ type: 'inline_not_allowed', loc: [...loc, name], msg })
  }
  for (const [name, text] of fields) {
    if (isGiven(members.get(name)) && !NEVER_INLINE.includes(name))
      faults.push({ type: 'repeated', loc: [...loc, name], msg: 'is sent inline and as a part; send it once' })
    members.set(name, text)
  }
  return readOperation({ kind, id, members, loc }, faults)
}

const isGiven = (text: string | undefined): boolean => text !== undefined && text !== 'null'
