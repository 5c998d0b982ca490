// Removing and measuring folders that an application has filled.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { measureMegabytes } from '../../src/agent/system/files.ts'
import { makeTempFolder } from '../support/process-engine.ts'

test('read-only folders are removed, and the targets of links are not', () => {
  const home = makeTempFolder()
  const [cache, other] = [join(home, 'cache'), join(home, 'other')]
  for (const at of [join(cache, 'mod/deep'), other]) fs.mkdirSync(at, { recursive: true })
  for (const at of [join(cache, 'mod/deep/file'), join(other, 'file')]) fs.writeFileSync(at, '')
  fs.symlinkSync(other, join(cache, 'mod/link'))
  for (const at of [join(cache, 'mod/deep'), join(cache, 'mod'), other]) fs.chmodSync(at, 0o555)
  const module = join(import.meta.dirname, '../../src/agent/system/files.ts')
  const script = `import { removeRecursively } from '${module}'; await removeRecursively('${cache}')`
  // Root without these capabilities, which would bypass the permissions.
  const bounds = ['--bounding-set=-dac_override,-dac_read_search', '--inh-caps=-dac_override,-dac_read_search']
  const as = process.getuid?.() === 0 ? ['setpriv', ...bounds] : []
  const [file, ...args] = [...as, process.execPath, '--input-type=module', '--eval', script]
  execFileSync(file!, args)
  expect(fs.existsSync(cache)).toBe(false)
  expect([fs.existsSync(join(other, 'file')), fs.statSync(other).mode & 0o777]).toEqual([true, 0o555])
  fs.chmodSync(other, 0o755)
  fs.rmSync(home, { recursive: true })
})

test('empty files and folders too deep for a path count towards the size', async () => {
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
