// ARCHITECTURE.md is the map of the code: the files and functions that it names exist, and it has every room.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const map = readFileSync(join(ROOT, 'ARCHITECTURE.md'), 'utf8')

it('ARCHITECTURE.md names only files and folders that exist', () => {
  const paths = [...map.matchAll(/`((?:src|test|drizzle|docs|deploy|examples|scripts)\/[\w./-]*)`/g)]
  expect(paths.length).toBeGreaterThan(60)
  for (const [, path] of paths) expect(existsSync(join(ROOT, path!)), path).toBe(true)
})

it('the top has seven folders, and no output of a program', () => {
  const files = execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' }).trim().split('\n')
  const folders = new Set(files.filter(file => file.includes('/')).map(file => file.split('/')[0]!))
  expect([...folders].filter(name => !name.startsWith('.')).sort()).toEqual([
    'deploy',
    'docs',
    'drizzle',
    'examples',
    'scripts',
    'src',
    'test',
  ])
})

it('ARCHITECTURE.md has every folder of src, apart from those of the dashboard', () => {
  const folders = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isDirectory() && !entry.parentPath.includes('src/dashboard'))
    .map(entry => join(entry.parentPath, entry.name).slice(ROOT.length + 1))
  // In the row of its room, a folder has no more than its name.
  const isOnMap = (folder: string) => {
    const [room, name] = [folder.split('/').slice(0, 2).join('/'), folder.split('/').slice(2).join('/')]
    const row = map.split('\n').find(line => line.startsWith(`| \`${room}/\` |`))
    return map.includes(`\`${folder}/\``) || row?.includes(`\`${name}/\``)
  }
  expect(folders.filter(folder => !isOnMap(folder))).toEqual([])
})

it('ARCHITECTURE.md names only functions that exist in the files of the same row', () => {
  expect(map.match(/`\w+\(\)`/g)!.length).toBeGreaterThan(20)
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
