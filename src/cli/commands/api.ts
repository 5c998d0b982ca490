// `slipway api`: any request, with the stored key. The answer is printed as it is.
import { readFileSync } from 'node:fs'
import { usageError } from '../failure.ts'
import { readStdin } from '../secret-input.ts'
import type { Session } from '../session.ts'
import { toJson } from '../terminal-text.ts'

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

/** The body comes from a file or standard input, because it may hold secrets. */
export async function sendRequest(
  session: Session,
  given: string,
  path: string,
  options: { input?: string; planDigest?: string },
) {
  const { client, out, signal } = session
  const method = given.toUpperCase()
  if (!METHODS.includes(method)) throw usageError(`${given} is not a method. Use one of ${METHODS.join(', ')}.`)
  if (!path.startsWith('/')) throw usageError(`${path} is not a path. It begins with a slash, as in /v2/deployments.`)
  const headers = { 'Plan-Digest': options.planDigest }
  const { reply } = await client.send({ method, path, body: await readBody(options.input), headers, signal })
  if (reply !== undefined) out.raw(toJson(reply, out.isMachine ? undefined : 2))
}

async function readBody(input: string | undefined): Promise<unknown> {
  if (input === undefined) return undefined
  const text = input === '-' ? await readStdin() : readFileSync(input, 'utf8')
  try {
    return JSON.parse(text)
  } catch (error) {
    throw usageError(`${input === '-' ? 'Standard input' : input} is not JSON: ${(error as Error).message}`)
  }
}
