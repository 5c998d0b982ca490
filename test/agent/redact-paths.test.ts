// Folders of the agent are replaced in texts by the names that an application would expect.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ProcessReplica } from '../../src/agent/engines/process/replica.ts'
import { createPathRedactor, cutLine } from '../../src/agent/redaction/redact-paths.ts'
import { waitFor } from '../support/commands.ts'
import { makeTempFolder } from '../support/process-engine.ts'

const [deployment, revision] = [randomUUID(), randomUUID()]
const HOME = '/srv/my agent (1)'
const tree = `${HOME}/builds/${deployment}/${revision}/tree`

describe('a folder of the agent', () => {
  const { redact, settledLength } = createPathRedactor(HOME)
  test.each([
    [`${tree}/src/a.ts:3`, '/app/src/a.ts:3'],
    [`at file://${encodeURI(tree)}/main.mjs`, 'at file:///app/main.mjs'],
    [`in ${tree}. Then`, 'in /app. Then'],
    [`"${tree}"`, '"/app"'],
    [`${tree}.index`, `/agent/builds/${deployment}/${revision}/tree.index`],
    [`${HOME}/builds/${deployment}/cache/npm/_logs`, '/cache/npm/_logs'],
    [`${HOME}/builds/${deployment}/cache/home/.npmrc`, '/home/app/.npmrc'],
    [`${HOME}/process/${deployment}/revisions/${revision}/home/x`, '/home/app/x'],
    [`${HOME}/process/${deployment}/revisions/${revision}/tmp`, '/tmp'],
    [`${HOME}/postgres/log`, '/agent/postgres/log'],
    [`${HOME}-2/x`, `${HOME}-2/x`],
    ['/srv/my', '/srv/my'],
  ])('%s', (text, told) => expect(redact(text)).toBe(told))

  test('is not cut when an unfinished line is shown', () => {
    const line = `at ${tree}/src/a.ts:3 in file://${encodeURI(tree)}/b.ts, and /srv/my other`
    for (let first = 0; first <= line.length; first++) {
      const length = settledLength(line.slice(0, first))
      expect(redact(line.slice(0, length)) + redact(line.slice(length))).toBe(redact(line))
    }
    expect(settledLength('Listening on http://localhost:3000')).toBe('Listening on http://localhost:3000'.length)
  })

  test('is also recognised through a link', () => {
    const at = makeTempFolder()
    fs.mkdirSync(join(at, 'real'))
    fs.symlinkSync('real', join(at, 'link'))
    const through = createPathRedactor(join(at, 'link'))
    for (const way of ['link', 'real'])
      expect(through.redact(join(fs.realpathSync(at), way, 'builds', deployment, revision, 'tree', 'x'))).toBe('/app/x')
    fs.rmSync(at, { recursive: true })
  })
})

test('a line is never cut within a path', () => {
  const home = '/srv/agent'
  const line = `${'x'.repeat(90)} ${tree.replace(HOME, home)}/src/a.ts`
  for (let longest = 1; longest < line.length; longest++)
    expect(createPathRedactor(home).redact(cutLine(line, longest))).not.toContain('/srv')
  expect(cutLine(`${'x'.repeat(90)} /a/b/c`, 95)).toBe(`${'x'.repeat(90)} …`)
  expect(cutLine('/'.repeat(90), 50)).toBe(`${'/'.repeat(50)}…`)
  expect(cutLine('short', 50)).toBe('short')
})

test('a line that is too long is cut, and the next line is whole, also after a restart of the agent', async () => {
  const at = makeTempFolder()
  const env = { PATH: process.env.PATH!, SLIPWAY_REVISION_ID: revision }
  const long = `${'x'.repeat(16 * 1024 - 100)} ${'/'.padEnd(20_000, 'deep/')}`
  const command = `printf '%s' '${long}'; sleep 0.2; echo deeper; printf 'hal'; sleep 0.5; echo f; exec sleep 60`
  const copy = ProcessReplica.launch(join(at, 'copies'), { command, cwd: at, env, port: 1 })
  const lines: string[] = []
  await waitFor(
    () => lines.push(...copy.readLines()) >= 1 && fs.readFileSync(join(copy.folder, 'log'), 'utf8').endsWith('hal'),
  )
  copy.readLines()
  copy.release()
  const [next] = await ProcessReplica.adopt(join(at, 'copies'), 0, () => {})
  await waitFor(() => lines.push(...next!.readLines()) >= 2)
  expect(lines).toEqual([`${'x'.repeat(16 * 1024 - 100)} …`, 'half'])
  await next!.end(0)
  fs.rmSync(at, { recursive: true })
})
