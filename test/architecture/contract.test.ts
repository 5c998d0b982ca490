// docs/reference/contract.md has every statement of the contract, and names a test of each that exists.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const FOLDER = join(import.meta.dirname, '../../docs/reference')
const STATEMENTS = 61
const ROW =
  /^\| (?<number>\d+) \| (?<words>[^|]+) \| (?<state>[^|]+) \| \[[^\]]+\]\((?<path>[^)]+)\): (?<title>[^|]+) \|$/

const lines = readFileSync(join(FOLDER, 'contract.md'), 'utf8').split('\n')
const rows = lines.filter(line => /^\| \d/.test(line)).map(line => ROW.exec(line)?.groups ?? { words: line })

it('the page of the contract has every statement once, with its state', () => {
  expect(rows.map(({ number }) => Number(number))).toEqual(Array.from({ length: STATEMENTS }, (_, i) => i + 1))
  const isState = (state: string) => /^(holds|(by decision|open): .+)$/.test(state)
  expect(rows.filter(({ state }) => !isState(state!)).map(({ words }) => words)).toEqual([])
})

it('the page of the contract names a test that exists for every statement that is not open', () => {
  const isProved = (path: string, title: string) => {
    const file = join(FOLDER, path)
    return existsSync(file) && readFileSync(file, 'utf8').includes(title)
  }
  const missing = rows.filter(({ state, path, title }) => !state!.startsWith('open') && !isProved(path!, title!))
  expect(missing.map(({ number, path, title }) => `${number} ${path} ${title}`)).toEqual([])
})
