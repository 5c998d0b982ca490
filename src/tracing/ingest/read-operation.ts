// Reads one run as a client sent it. Its payloads stay texts, byte for byte; its other members are validated.
import type * as z from 'zod'
import type { Fault } from '../../kernel/http/errors.ts'
import { sliceObject } from '../../kernel/json/json-slices.ts'
import type { ValueBudget } from '../../kernel/limits/value-budget.ts'
import { describeIssue } from '../../protocol/fault-messages.ts'
import { type NewFeedback, PAYLOADS, type Payload, type RunOperation } from '../store/store.ts'
import { MAX_OPERATIONS, MEMBER_NAMES, RunMembers } from './ingestion.schema.ts'
import { decodeText } from './multipart.ts'

/** The members of a run as JSON texts. */
export type MemberTexts = Map<string, string>

export const TOO_MANY_OPERATIONS = `must have at most ${MAX_OPERATIONS} runs and patches`
/** Chains of chains serialize deep, and nothing here recurses. */
const MAX_DEPTH = 512
const MAX_MEMBERS = 100
/** The limit of a member that is no text and no payload, so that little is built of it. */
const MAX_MEMBER_LENGTH = 64 * 1024

/** All faults at once. The operations are right only if there is none. */
export type ReadRuns = { operations: RunOperation[]; feedback?: NewFeedback[]; faults: Fault[] }

/** Null, with a fault, for bytes that are not JSON in UTF-8. */
export function decodeJson(bytes: Uint8Array, values: ValueBudget, loc: Fault['loc'], faults: Fault[]): string | null {
  const text = decodeText(bytes)
  const fault = text === null ? { type: 'utf8_invalid', msg: 'is not valid UTF-8' } : values.check(text, MAX_DEPTH)
  if (fault) faults.push({ ...fault, loc })
  return fault ? null : text
}

/** Pushes a fault, and returns false, for JSON of another kind. */
export function checkKind(kind: 'object' | 'list', text: string, loc: Fault['loc'], faults: Fault[]): boolean {
  const isOfKind = text.trimStart()[0] === (kind === 'object' ? '{' : '[')
  if (!isOfKind)
    faults.push({ type: 'invalid_type', loc, msg: `must be ${kind === 'object' ? 'an object' : 'a list'}` })
  return isOfKind
}

export function sliceMembers(text: string, loc: Fault['loc'], faults: Fault[]): MemberTexts {
  const members = sliceObject(text, MAX_MEMBERS + 1)
  if (members.size > MAX_MEMBERS) faults.push({ type: 'too_big', loc, msg: `must have at most ${MAX_MEMBERS} members` })
  return members
}

type Source = {
  kind: RunOperation['kind']
  /** The id in the path or in the name of the part. It stands in for a missing one in the body. */
  id?: string | undefined
  members: MemberTexts
  loc: Fault['loc']
}

/** Null, with faults, where the run is not valid. Faults of its payloads are pushed in any case. */
export function readOperation({ kind, id, members, loc }: Source, faults: Fault[]): RunOperation | null {
  const given = Object.fromEntries(MEMBER_NAMES.map(name => [name, parseMember(name, members, loc, faults)]))
  const payloads = Object.fromEntries(PAYLOADS.map(name => [name, readPayload(name, members, loc, faults)]))
  const run = parseMembers(RunMembers, { ...given, kind }, loc, faults)
  if (!run) return null
  const ownId = run.id ?? id
  if (ownId === undefined || ownId !== (id ?? ownId)) {
    const msg = ownId === undefined ? 'is required' : 'must be the id under which the run is sent'
    faults.push({ type: 'custom', loc: [...loc, 'id'], msg })
    return null
  }
  return { ...withoutNulls(run), ...payloads, id: ownId, loc }
}

const withoutNulls = <Members extends object>(
  members: Members,
): { [Name in keyof Members]: NonNullable<Members[Name]> } =>
  Object.fromEntries(Object.entries(members).map(([name, value]): unknown[] => [name, value ?? undefined]))

/** Undefined, with faults, for a value that does not match. */
export function parseMembers<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  loc: Fault['loc'],
  faults: Fault[],
): z.output<Schema> | undefined {
  const { data, error } = schema.safeParse(value, { error: describeIssue })
  for (const { code, path, message } of error?.issues ?? [])
    faults.push({ type: code, loc: [...loc, ...(path as (string | number)[])], msg: message })
  return data
}

function parseMember(name: string, members: MemberTexts, loc: Fault['loc'], faults: Fault[]): unknown {
  const text = members.get(name)
  if (text === undefined) return undefined
  if (text[0] === '"' || text.length <= MAX_MEMBER_LENGTH) return JSON.parse(text)
  faults.push({ type: 'too_big', loc: [...loc, name], msg: 'is too long' })
  return undefined
}

function readPayload(name: Payload, members: MemberTexts, loc: Fault['loc'], faults: Fault[]): string | undefined {
  const text = members.get(name)
  if (text === undefined || text === 'null') return undefined
  return checkKind(name === 'events' ? 'list' : 'object', text, [...loc, name], faults) ? text : undefined
}
