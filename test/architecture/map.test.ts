// ARCHITECTURE.md is the map of the code: what it names exists, and every room is on it.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const map = readFileSync(join(ROOT, 'ARCHITECTURE.md'), 'utf8')

it('ARCHITECTURE.md names only files and folders that exist', () => {
  const paths = [...map.matchAll(/`((?:src|test|drizzle|docs|protocol-kit|bench|chaos|templates|scripts)\/[\w./-]*)`/g)]
  expect(paths.length).toBeGreaterThan(60)
  for (const [, path] of paths) expect(existsSync(join(ROOT, path!)), path).toBe(true)
})

it('ARCHITECTURE.md has every folder of src', () => {
  const folders = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isDirectory())
    .map(entry => join(entry.parentPath, entry.name).slice(ROOT.length + 1))
  for (const folder of folders) expect(map, folder).toContain(`\`${folder}/\``)
})

it('ARCHITECTURE.md names only functions that exist in the files of the same row', () => {
  for (const row of map.split('\n').filter(line => line.startsWith('| '))) {
    const names = [...row.matchAll(/`(\w+)\(\)`/g)].map(([, name]) => name!)
    const files = [...row.matchAll(/`((?:src|drizzle)\/[\w./-]+\.(?:ts|sql))`/g)].map(([, file]) => file!)
    const texts = files.map(file => readFileSync(join(ROOT, file), 'utf8'))
    for (const name of names)
      expect(
        texts.some(text => new RegExp(`\\b${name}\\b(?:[<(]| = )`).test(text)),
        name,
      ).toBe(true)
  }
})
