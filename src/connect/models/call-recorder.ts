// Follows a call that passes by, and records it once, however it ends.
import type { Ctx } from '../../kernel/http/context.ts'
import { ValueBudget } from '../../kernel/limits/value-budget.ts'
import { type AnswerReader, createAnswerReader } from './answer-reader.ts'
import type { OpenedCall } from './open-call.ts'
import type { PassedBody } from './passed-body.ts'
import { recordCall } from './record-call.ts'

const MAX_DEPTH = 512
/** A value that is built counts as five of them, which leaves room for all token ids of a body that is kept. */
const MAX_VALUES = 1_000_000

export type CallRecorder = ReturnType<typeof startRecording>

/** The host keeps the request alive until it is recorded. */
export function startRecording(ctx: Ctx, call: OpenedCall, operation: string, body: PassedBody) {
  const started = Date.now()
  const recorded = Promise.withResolvers<void>()
  ctx.waitUntil?.(recorded.promise)
  let reader: AnswerReader | undefined
  let status: number | null = null
  let hidden: string[] = []
  let isEnded = false
  return {
    hide(secrets: string[]): void {
      hidden = secrets
    },
    begin(answer: Response): void {
      status = answer.status
      reader = createAnswerReader(answer.headers.get('content-type'))
    },
    read(chunk: Uint8Array): void {
      reader?.read(chunk)
    },
    /** The client has left. A stream that has said its last word is whole all the same. */
    leave(): void {
      if (reader?.hasEnded()) this.end(null)
      else this.end('the client disconnected', true)
    },
    /** Null: it succeeded. */
    end(error: string | null, isCut = false): void {
      if (isEnded) return
      isEnded = true
      const asked = { ...readRequest(body, call), bytes: body.bytes() }
      const answer = reader?.finish() ?? null
      recordCall(ctx, call, { started, operation, status, error, isCut, asked, answer, secrets: hidden })
        .then(() => {})
        .finally(recorded.resolve)
    },
  }
}

function readRequest(body: PassedBody, { configuration }: OpenedCall): { model: string; inputs: unknown } {
  const text = body.keptText()
  const json = text === undefined ? { omitted: `A body of ${body.bytes()} bytes.` } : parse(text)
  const model = typeof json?.model === 'string' ? json.model.slice(0, 200) : configuration.model
  return { model, inputs: json ?? {} }
}

function parse(text: string): ReturnType<typeof JSON.parse> {
  if (text === '') return undefined
  const fault = new ValueBudget(MAX_VALUES).checkBeforeParse(text, MAX_DEPTH)
  if (fault?.type === 'json_invalid') return { text }
  if (fault) return { omitted: `A body that ${fault.msg}.` }
  const value = JSON.parse(text)
  return typeof value === 'object' && !Array.isArray(value) ? value : { body: value }
}
