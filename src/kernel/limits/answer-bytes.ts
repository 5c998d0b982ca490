// Bytes of large answers that are being read, written or sent: bounded for the process, and shared by workspace. Small
// answers are not counted.
import { fail } from '../http/errors.ts'
import { addSecurityHeaders, jsonResponse } from '../http/json-response.ts'
import { isStranger } from './share-groups.ts'
import { type Line, takeAll, toKnownGroup, tryTakeAll } from './share-lines.ts'
import { createShares, type Release } from './shares.ts'

const COUNTED_LENGTH = 256 * 1024
const CHUNK_LENGTH = 64 * 1024
/** All strangers together get this part. */
const STRANGERS_PART = 0.5
const MAX_WAIT_MS = 5000
/** A client that takes nothing for this long is not waited for. */
const MAX_STALL_MS = 30_000

export type AnswerBytes = ReturnType<typeof createAnswerBytes>
export type Answer = ReturnType<AnswerBytes['begin']>

export function createAnswerBytes(capacity: number) {
  const all = createShares({ capacity })
  const strangersCapacity = capacity * STRANGERS_PART
  const strangers = createShares({ capacity: strangersCapacity })

  /** An answer that is larger than the whole capacity is held alone. */
  function linesOf(group: string, bytes: number): Line[] {
    const ofAll = { shares: all, group: toKnownGroup(group), amount: Math.min(bytes, capacity) }
    if (!isStranger(group)) return [ofAll]
    const amount = Math.min(bytes, strangersCapacity)
    return [
      { shares: strangers, group, amount },
      { ...ofAll, amount },
    ]
  }

  return {
    /** The answer to one request. */
    begin(groupOf: () => string) {
      let held = 0
      let isSending = false
      const releases: Release[] = []
      const release = () => {
        for (const one of releases.splice(0)) one()
        held = 0
      }

      /** The reserved bytes are about as many as the text has. A small difference is not counted. */
      function holdText(length: number): void {
        const missing = length - held
        if (missing < COUNTED_LENGTH) return
        const taken = tryTakeAll(linesOf(groupOf(), missing))
        if (!taken) throw busy()
        releases.push(taken)
      }

      return {
        /** Waits for a turn, before a large part of the answer is read. */
        async reserve(bytes: number): Promise<void> {
          if (bytes < COUNTED_LENGTH) return
          const lines = linesOf(groupOf(), bytes)
          releases.push(tryTakeAll(lines) ?? (await waitForTurn(lines)))
          held += bytes
        },
        /** `isHead`: nothing of the text is sent. */
        respond(text: string, status = 200, isHead = false): Response {
          if (text.length < COUNTED_LENGTH || isHead) {
            release()
            return jsonResponse(text, status)
          }
          holdText(text.length)
          isSending = true
          const headers = new Headers({ 'Content-Type': 'application/json' })
          addSecurityHeaders(headers)
          return new Response(streamText(text, release), { status, headers })
        },
        /** Ends the request. Has no effect while its answer is sent. */
        finish(): void {
          if (!isSending) release()
        },
      }
    },
    state: () => all.state(),
  }
}

const busy = () => fail('answers_busy', { headers: { 'Retry-After': '1' } })

async function waitForTurn(lines: Line[]): Promise<Release> {
  const timeout = new AbortController()
  const timer = setTimeout(() => timeout.abort(), MAX_WAIT_MS)
  return takeAll(lines, timeout.signal)
    .catch(() => {
      throw busy()
    })
    .finally(() => clearTimeout(timer))
}

/** Encodes the text as the client takes it, so that its bytes are not in memory a second time. */
function streamText(text: string, onEnd: () => void): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let at = 0
  let timer: ReturnType<typeof setTimeout> | undefined
  const end = () => {
    clearTimeout(timer)
    onEnd()
  }
  const expectProgress = (controller: ReadableStreamDefaultController) => {
    clearTimeout(timer)
    timer = setTimeout(() => {
      controller.error(new Error('The client takes nothing more of the answer'))
      end()
    }, MAX_STALL_MS)
    // The process may end meanwhile.
    ;(timer as { unref?: () => void }).unref?.()
  }
  return new ReadableStream(
    {
      start: expectProgress,
      pull(controller) {
        if (at >= text.length) {
          controller.close()
          return end()
        }
        expectProgress(controller)
        const to = endOfCharacter(text, at + CHUNK_LENGTH)
        controller.enqueue(encoder.encode(text.slice(at, to)))
        at = to
      },
      cancel: end,
    },
    // Nothing is encoded before the client asks for it.
    { highWaterMark: 0 },
  )
}

/** Two units of UTF-16 may be one character, which is not to be cut. */
const endOfCharacter = (text: string, at: number): number => {
  const code = text.charCodeAt(at - 1)
  return code >= 0xd800 && code < 0xdc00 ? at + 1 : at
}
