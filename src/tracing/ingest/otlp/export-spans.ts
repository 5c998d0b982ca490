// An export of spans over HTTP: decoded, converted and stored as runs.
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { sql } from 'drizzle-orm'
import { run } from '../../../kernel/db/db.ts'
import { type Ctx, isConfined } from '../../../kernel/http/context.ts'
import { fail } from '../../../kernel/http/errors.ts'
import type { RawBody } from '../../../kernel/http/raw-body.ts'
import { withTextBudget } from './attribute-reader.ts'
import { decodeJson } from './json.ts'
import { decodeProtobuf } from './protobuf.ts'
import { type SpanOperations, toOperations } from './span-operations.ts'
import { type ResourceSpans, UndecodableSpans } from './spans.ts'

/** Responds in the encoding of the request. */
export async function exportSpans(ctx: Ctx, body: RawBody, project: string | undefined) {
  const isJson = body.mediaType === 'application/json'
  const { operations, spans, ...outcome } = convert(ctx, body, project)
  if (operations.length > 0) await ctx.traces.append(ctx, operations, [], spans)
  else await run(ctx, CHECK_KEY)
  return isJson ? JSON.stringify(describeOutcome(outcome)) : encodeOutcome(outcome)
}

/** An export without spans is valid, and has to have a key like any other. */
const CHECK_KEY = sql`select`

const undecodable = (cause: Error) => fail('spans_undecodable', { about: cause.message, cause })

function convert(ctx: Ctx, body: RawBody, project: string | undefined): SpanOperations {
  const decoded = decode(body)
  try {
    return withTextBudget(body.values, () => toOperations(decoded, project, isConfined(ctx)))
  } catch (error) {
    throw error instanceof UndecodableSpans ? undecodable(error) : error
  }
}

function decode(body: RawBody): ResourceSpans[] {
  try {
    return body.mediaType === 'application/json' ? parseJson(body) : decodeProtobuf(body.bytes)
  } catch (cause) {
    throw undecodable(cause as Error)
  }
}

/** A list within an attribute is three levels of JSON, and an attribute has at most 64. */
const MAX_JSON_DEPTH = 256

function parseJson({ bytes, values }: RawBody): ResourceSpans[] {
  const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  const fault = values.checkBeforeParse(text, MAX_JSON_DEPTH)
  if (fault) throw new UndecodableSpans(`it ${fault.msg}`)
  return decodeJson(JSON.parse(text))
}
type Outcome = Pick<SpanOperations, 'rejected' | 'reason'>

const describeOutcome = ({ rejected, reason }: Outcome) =>
  rejected > 0 ? { partialSuccess: { rejectedSpans: String(rejected), errorMessage: reason } } : {}

/** An ExportTraceServiceResponse. */
function encodeOutcome({ rejected, reason = '' }: Outcome): Uint8Array<ArrayBuffer> {
  const message = new BinaryWriter()
  if (rejected > 0)
    message
      .tag(1, WireType.LengthDelimited)
      .fork()
      .tag(1, WireType.Varint)
      .int64(rejected)
      .tag(2, WireType.LengthDelimited)
      .string(reason)
      .join()
  return message.finish() as Uint8Array<ArrayBuffer>
}
