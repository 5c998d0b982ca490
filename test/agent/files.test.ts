// Folders that an application has filled are removed and measured.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { measureMegabytes } from '../../src/agent/system/files.ts'
import { makeTempFolder } from '../support/process-engine.ts'

test('a folder is removed with its read-only folders, but without the targets of its links', () => {
  const home = makeTempFolder()
  const [cache, linkTarget] = [join(home, 'cache'), join(home, 'target')]
  for (const at of [join(cache, 'mod/deep'), linkTarget]) fs.mkdirSync(at, { recursive: true })
  for (const at of [join(cache, 'mod/deep/file'), join(linkTarget, 'file')]) fs.writeFileSync(at, '')
  fs.symlinkSync(linkTarget, join(cache, 'mod/link'))
  for (const at of [join(cache, 'mod/deep'), join(cache, 'mod'), linkTarget]) fs.chmodSync(at, 0o555)
  const module = join(import.meta.dirname, '../../src/agent/system/files.ts')
  const script = `import { removeRecursively } from '${module}'; await removeRecursively('${cache}')`
  // With these capabilities root bypasses the permissions.
  const bounds = ['--bounding-set=-dac_override,-dac_read_search', '--inh-caps=-dac_override,-dac_read_search']
  const prefix = process.getuid?.() === 0 ? ['setpriv', ...bounds] : []
  const [file, ...args] = [...prefix, process.execPath, '--input-type=module', '--eval', script]
  execFileSync(file!, args)
  expect(fs.existsSync(cache)).toBe(false)
  expect([fs.existsSync(join(linkTarget, 'file')), fs.statSync(linkTarget).mode & 0o777]).toEqual([true, 0o555])
  fs.chmodSync(linkTarget, 0o755)
  fs.rmSync(home, { recursive: true })
})

test('empty files count towards the size, and a tree too deep for a path counts as infinite', async () => {
  const home = makeTempFolder()
  for (let i = 0; i < 1000; i++) fs.writeFileSync(join(home, `${i}`), '')
  expect(await measureMegabytes(home)).toBeGreaterThan(3)
  const [upper, lower] = ['upper', 'lower'].map(name => join(home, name, ...Array(15).fill('n'.repeat(200))))
  for (const at of [upper!, lower!]) fs.mkdirSync(at, { recursive: true })
  fs.writeFileSync(join(lower!, 'file'), '')
  fs.renameSync(join(home, 'lower'), join(upper!, 'lower'))
  expect(await measureMegabytes(home)).toBe(Number.POSITIVE_INFINITY)
  execFileSync('rm', ['-rf', home])
})
