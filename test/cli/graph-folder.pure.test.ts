// The folders and variables that a deploy of a langgraph.json brings.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { findFiles } from '../../src/cli/archive.ts'
import { findGraphFolder, readGraphVariables } from '../../src/cli/graph-folder.ts'

function makeFolder(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'slipway-graph-folder-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return folder
}

it('packs the folders beside it that the file needs, and nothing else', () => {
  const root = makeFolder({
    'apps/agent/langgraph.json': '{"graphs": {}, "dependencies": [".", "../../libs/shared"]}',
    'apps/agent/agent.py': '',
    'apps/other/secret.txt': '',
    'libs/shared/setup.py': '',
    'uv.lock': '',
  })
  const found = findGraphFolder(join(root, 'apps/agent'))
  expect(found).toEqual({
    root,
    only: ['apps/agent', 'libs/shared'],
    platform_config_path: 'apps/agent/langgraph.json',
  })
  const files = findFiles(found.root, {}, found.only).found.map(({ path }) => path)
  expect(files).toEqual(['apps/agent/agent.py', 'apps/agent/langgraph.json', 'libs/shared/setup.py'])
})

it('packs a folder that needs no other as it is', () => {
  const root = makeFolder({ 'langgraph.json': '{"graphs": {}, "dependencies": [".", "./lib"]}', 'lib/a.py': '' })
  expect(findGraphFolder(root)).toEqual({ root, only: [], platform_config_path: null })
})

it('refuses folders that are not of its project, and reads no variables from beyond the folder', () => {
  const root = makeFolder({
    'repository/.git/HEAD': '',
    'repository/agent/langgraph.json': '{"graphs": {}, "dependencies": [".", "../../other"], "env": ".env"}',
    'alone/langgraph.json': '{"graphs": {}, "dependencies": [".", "../.secrets"]}',
    '.secrets/key': '',
    'other/x.py': '',
    credentials: 'SECRET=1',
  })
  expect(() => findGraphFolder(join(root, 'repository/agent'))).toThrow(join(root, 'other'))
  expect(() => findGraphFolder(join(root, 'alone'))).toThrow('.secrets')
  const home = relative(root, homedir())
  writeFileSync(join(root, 'langgraph.json'), JSON.stringify({ graphs: {}, dependencies: [home] }))
  expect(() => findGraphFolder(root)).toThrow(homedir())
  symlinkSync('../../credentials', join(root, 'repository/agent/.env'))
  expect(readGraphVariables(join(root, 'repository/agent'), { note: () => {} })).toEqual([])
})

it('makes the variables that the file names secrets, without those of the platform', () => {
  const root = makeFolder({
    'langgraph.json': '{"graphs": {}, "env": ".env"}',
    '.env': 'A=1\nPORT=2\nLANGSMITH_PROJECT=x\n',
  })
  const notes: string[] = []
  expect(readGraphVariables(root, { note: text => notes.push(text) })).toEqual([{ name: 'A', value: '1' }])
  expect(notes.join(' ')).toMatch(/PORT, LANGSMITH_PROJECT.*A/)
})
