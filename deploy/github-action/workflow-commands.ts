// A step speaks to the runner by commands in its output, and by files that it appends to.
import { randomUUID } from 'node:crypto'
import { appendFileSync } from 'node:fs'

const { env } = process

const escapeData = (text: string): string => text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A')

export const command = (name: string, message: string): void => console.log(`::${name}::${escapeData(message)}`)

/** Hides it in all later output of the job. */
export const mask = (secret: string): void => command('add-mask', secret)

/** Runs the work while the runner takes no commands from the output: lines of a build could be some. */
export async function withoutCommands<T>(work: () => Promise<T>): Promise<T> {
  const token = randomUUID()
  command('stop-commands', token)
  try {
    return await work()
  } finally {
    console.log(`::${token}::`)
  }
}

function append(file: string, text: string): void {
  const path = env[file]
  if (path) appendFileSync(path, text)
}

/** A delimiter that no value can have, so that a value of several lines cannot set another output. */
function appendPairs(file: string, values: Record<string, string>): void {
  const delimiter = `slipway_${randomUUID()}`
  for (const [name, value] of Object.entries(values)) append(file, `${name}<<${delimiter}\n${value}\n${delimiter}\n`)
}

export const setOutputs = (values: Record<string, string>): void => appendPairs('GITHUB_OUTPUT', values)
export const setVariables = (values: Record<string, string>): void => appendPairs('GITHUB_ENV', values)
export const addPath = (folder: string): void => append('GITHUB_PATH', `${folder}\n`)
export const addSummary = (markdown: string): void => append('GITHUB_STEP_SUMMARY', markdown)
