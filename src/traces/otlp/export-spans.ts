// An export of spans over HTTP: decoded, converted and stored as runs.
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { sql } from 'drizzle-orm'
import { type Ctx, isConfined } from '../../kernel/context.ts'
import { run } from '../../kernel/db.ts'
import { fail } from '../../kernel/errors.ts'
import type { RawBody } from '../../kernel/raw-body.ts'
import { decodeJson } from './json.ts'
import { decodeProtobuf } from './protobuf.ts'
import { type SpanOperations, toOperations } from './run-operations.ts'
import type { ResourceSpans } from './spans.ts'

/** As a response in the encoding of the request. */
export async function exportSpans(ctx: Ctx, { bytes, mediaType }: RawBody, project: string | undefined) {
  const isJson = mediaType === 'application/json'
  const { operations, spans, ...outcome } = toOperations(decode(bytes, isJson), project, isConfined(ctx))
  if (operations.length > 0) await ctx.traces.append(ctx, operations, [], spans)
  else await run(ctx, CHECK_KEY)
  return isJson ? JSON.stringify(describeOutcome(outcome)) : encodeOutcome(outcome)
}

/** An export without spans is valid, and has to have a key like any other. */
const CHECK_KEY = sql`select`

function decode(bytes: Uint8Array, isJson: boolean): ResourceSpans[] {
  try {
    if (!isJson) return decodeProtobuf(bytes)
    return decodeJson(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)))
  } catch (cause) {
    throw fail('spans_undecodable', { about: (cause as Error).message, cause })
  }
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
