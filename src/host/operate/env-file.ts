// Environment files of systemd: reads them, and sets variables without touching what an operator has added.
import { existsSync, readFileSync } from 'node:fs'

export type EnvFile = { text: string; values: Map<string, string> }

const ASSIGNMENT = /^([A-Za-z_][A-Za-z0-9_]*)=(.*)$/
/** A shell that reads the file would interpret other characters without quotes. */
const BARE = /^[A-Za-z0-9_./:@%+,=-]*$/
/** systemd reads quotes, backslashes and comments in other values. */
export const PLAIN = /^[A-Za-z0-9_./:@%+,=?&~[\]-]*$/

export function readEnvFile(path: string): EnvFile {
  const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
  return { text, values: parse(text) }
}

function parse(text: string): Map<string, string> {
  return new Map(
    text.split('\n').flatMap(line => {
      const [, name, value] = ASSIGNMENT.exec(line) ?? []
      return name === undefined ? [] : [[name, value!.replace(/^(["'])(.*)\1$/, '$2')] as const]
    }),
  )
}

/** A value of undefined removes the variable. One that the file sets twice is set once: systemd would take the last. */
export function setVariables(file: EnvFile, variables: Record<string, string | undefined>): string {
  const missing = new Map(Object.entries(variables))
  const lines = file.text
    .split('\n')
    .filter(line => line !== '')
    .flatMap(line => {
      const name = ASSIGNMENT.exec(line)?.[1]
      if (name === undefined || !Object.hasOwn(variables, name)) return [line]
      if (!missing.has(name)) return []
      const value = missing.get(name)
      missing.delete(name)
      return value === undefined ? [] : [toLine(name, value)]
    })
  for (const [name, value] of missing) if (value !== undefined) lines.push(toLine(name, value))
  return `${lines.join('\n')}\n`
}

function toLine(name: string, value: string): string {
  if (!PLAIN.test(value)) throw new Error(`${name} has characters that an environment file cannot hold unchanged.`)
  return `${name}=${BARE.test(value) ? value : `"${value}"`}`
}
