// The table of commands: each file of a command is in it, and only the named command is imported.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { expect, it } from 'vitest'
import { createProgram, declareNamed } from '../../src/cli/program.ts'

const FILES = readdirSync(join(import.meta.dirname, '../../src/cli/commands')).map(name => name.replace(/\.ts$/, ''))

const listCommands = (command: Command, path: string[] = []): { name: string; isDeclared: boolean }[] =>
  command.commands.length === 0
    ? [{ name: path.join('-'), isDeclared: command.description() !== '' }]
    : command.commands.flatMap(one => listCommands(one, [...path, one.name()]))

async function listDeclared(...words: string[]): Promise<string[]> {
  const program = createProgram(new AbortController().signal)
  await declareNamed(program, words)
  return listCommands(program).flatMap(({ name, isDeclared }) => (isDeclared ? [name] : []))
}

it('each file of src/cli/commands is the command of its name', () => {
  const names = listCommands(createProgram(new AbortController().signal)).map(({ name }) => name)
  expect(names.map(name => name.replace('__', '')).sort()).toEqual(FILES.sort())
})

it.each([
  { words: ['deploy', '.', '--create'], declared: ['deploy'] },
  { words: ['--json', 'env', 'set', 'NAME'], declared: ['env-set'] },
  { words: ['keys'], declared: ['keys-list', 'keys-create', 'keys-revoke'] },
  { words: ['help', 'keys', 'list'], declared: ['keys-list', 'keys-create', 'keys-revoke'] },
  { words: ['keys', 'help', 'list'], declared: ['keys-list'] },
])('declares $declared for $words', async ({ words, declared }) => {
  expect(await listDeclared(...words)).toEqual(declared)
})

it('declares all commands for the help of the program', async () => {
  const hidden = 1
  expect(await listDeclared('--help')).toHaveLength(FILES.length - hidden)
})
