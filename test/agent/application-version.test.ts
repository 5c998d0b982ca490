import { mkdtempSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findApplicationVersion } from '../../src/agent/builds/application-version.ts'

const newFolder = (files: Record<string, string>) => {
  const folder = mkdtempSync(join(tmpdir(), 'version-'))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return folder
}
const project = (table: string) => `[build-system]\nversion = "0"\n\n[${table}]\nname = "a"\nversion = '2.1' # here\n`

test.each<[string, Record<string, string>, string | undefined, string | null]>([
  ['nothing', {}, undefined, null],
  ['a branch', {}, 'main', null],
  ['a tag', {}, 'refs/tags/v1.2', 'v1.2'],
  ['package.json, before the tag', { 'package.json': '{"version": "3.0.0"}' }, 'refs/tags/v1', '3.0.0'],
  ['a project of Python', { 'pyproject.toml': project('project') }, undefined, '2.1'],
  ['a project of Poetry', { 'pyproject.toml': project('tool.poetry') }, undefined, '2.1'],
  ['another table', { 'pyproject.toml': project('tool.other') }, undefined, null],
  ['a package without a version', { 'package.json': '{}', 'pyproject.toml': project('project') }, undefined, '2.1'],
  ['invalid JSON', { 'package.json': '{' }, 'refs/tags/v1', 'v1'],
  ['null', { 'package.json': 'null' }, undefined, null],
  ['a number', { 'package.json': '{"version": 3}' }, undefined, null],
  ['a text that a report refuses', { 'package.json': `{"version": "a b"}` }, undefined, null],
  ['a long text', { 'package.json': `{"version": "${'1'.repeat(129)}"}` }, undefined, null],
])('the version of a source with %s', (_, files, ref, version) => {
  expect(findApplicationVersion(newFolder(files), '', ref)).toBe(version)
})

test('a link that leads out of the source is not read', () => {
  const [inside, outside] = [newFolder({}), newFolder({ 'package.json': '{"version": "1"}' })]
  symlinkSync(join(outside, 'package.json'), join(inside, 'package.json'))
  expect(findApplicationVersion(inside, '', undefined)).toBeNull()
})
