// The file that `slipway env edit` opens: written from variables, and read back as changes of them. Pure.
import { parseEnvFile, writeVariable } from '../protocol/env-file.ts'

type Variables = Record<string, string>
/** `missing` are variables whose lines were deleted. They stay: only a line with a minus removes. */
type Edits = { set: Variables; unset: string[]; missing: string[] }

export function writeTemplate(deployment: string, secrets: { name: string; value: string }[], isRevealed: boolean) {
  const lines = secrets.map(({ name, value }) => writeVariable(name, value) ?? `${name}=`)
  const help = [
    `Variables of ${deployment}. What differs when you close this file is shown, and applied once you confirm it.`,
    isRevealed ? 'A line that is not changed keeps its value.' : 'NAME=        keeps the value that is stored',
    'NAME=value   sets a value',
    '-NAME=       removes the variable. Deleting its line does not.',
  ]
  return `${help.map(line => `# ${line}`).join('\n')}\n\n${lines.map(line => `${line}\n`).join('')}`
}

export function readTemplate(template: string, edited: string): Edits {
  const [before, after] = [template, edited].map(parseEnvFile) as [Variables, Variables]
  const isRemoval = (name: string) => name.startsWith('-')
  const unset = Object.keys(after)
    .filter(isRemoval)
    .map(name => name.slice(1))
  const set = Object.entries(after).filter(([name, value]) => !isRemoval(name) && before[name] !== value)
  return {
    set: Object.fromEntries(set.filter(([name]) => !unset.includes(name))),
    unset,
    missing: Object.keys(before).filter(name => !Object.hasOwn(after, name) && !unset.includes(name)),
  }
}
