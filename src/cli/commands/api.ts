// `slipway api`: any request, with the stored key. The answer is printed as it is.
import { readFileSync } from 'node:fs'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { readStdin } from '../secret-input.ts'
import type { Session } from '../session.ts'
import { toJson } from '../terminal-text.ts'

export const declaration: Declaration = {
  arguments: '<method> <path>',
  summary: 'send any request of the API',
  options: command =>
    command
      .option('--input <file>', 'the JSON body, or - for stdin')
      .option('--plan-digest <digest>', 'apply only the plan with this `plan_digest`'),
}

type Flags = { input?: string; planDigest?: string }

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

/** The body comes from a file or standard input, because it may hold secrets. */
export async function run(session: Session, options: Flags, [given, path]: [string, string]): Promise<void> {
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
