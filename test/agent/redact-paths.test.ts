// The agent's own folders are replaced in texts by paths that the user knows, such as /app.
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
const TREE = `${HOME}/builds/${deployment}/${revision}/tree`

describe('a folder of the agent in a text', () => {
  const { redact, settledLength } = createPathRedactor(HOME)
  test.each([
    [`${TREE}/src/a.ts:3`, '/app/src/a.ts:3'],
    [`at file://${encodeURI(TREE)}/main.mjs`, 'at file:///app/main.mjs'],
    [`in ${TREE}. Then`, 'in /app. Then'],
    [`"${TREE}"`, '"/app"'],
    [`${TREE}.index`, `/agent/builds/${deployment}/${revision}/tree.index`],
    [`${HOME}/builds/${deployment}/cache/npm/_logs`, '/cache/npm/_logs'],
    [`${HOME}/builds/${deployment}/cache/home/.npmrc`, '/home/app/.npmrc'],
    [`${HOME}/process/${deployment}/revisions/${revision}/home/x`, '/home/app/x'],
    [`${HOME}/process/${deployment}/revisions/${revision}/tmp`, '/tmp'],
    [`${HOME}/links/0a1b2c3d4e5f/tmp/x.sock`, '/tmp/x.sock'],
    [`${HOME}/postgres/log`, '/agent/postgres/log'],
    [`${HOME}-2/x`, `${HOME}-2/x`],
    ['/srv/my', '/srv/my'],
  ])('in `%s` gives `%s`', (text, redacted) => expect(redact(text)).toBe(redacted))

  test('is not cut when an unfinished line is shown', () => {
    const line = `at ${TREE}/src/a.ts:3 in file://${encodeURI(TREE)}/b.ts, and /srv/my other`
    for (let first = 0; first <= line.length; first++) {
      const length = settledLength(line.slice(0, first))
      expect(redact(line.slice(0, length)) + redact(line.slice(length))).toBe(redact(line))
    }
    expect(settledLength('Listening on http://localhost:3000')).toBe('Listening on http://localhost:3000'.length)
  })

  test('is also replaced if the text or the setting names it by a symbolic link', () => {
    const folder = makeTempFolder()
    fs.mkdirSync(join(folder, 'real'))
    fs.symlinkSync('real', join(folder, 'link'))
    const { redact } = createPathRedactor(join(folder, 'link'))
    for (const name of ['link', 'real'])
      expect(redact(join(fs.realpathSync(folder), name, 'builds', deployment, revision, 'tree', 'x'))).toBe('/app/x')
    fs.rmSync(folder, { recursive: true })
  })
})

test('a long line is never cut within a path', () => {
  const home = '/srv/agent'
  const line = `${'x'.repeat(90)} ${TREE.replace(HOME, home)}/src/a.ts`
  for (let longest = 1; longest < line.length; longest++)
    expect(createPathRedactor(home).redact(cutLine(line, longest))).not.toContain('/srv')
  expect(cutLine(`${'x'.repeat(90)} /a/b/c`, 95)).toBe(`${'x'.repeat(90)} …`)
  expect(cutLine('/'.repeat(90), 50)).toBe(`${'/'.repeat(50)}…`)
  expect(cutLine('short', 50)).toBe('short')
})

test('a log line that is too long is cut, and the next line is complete, even if the agent restarts', async () => {
  const folder = makeTempFolder()
  const env = { PATH: process.env.PATH!, SLIPWAY_REVISION_ID: revision }
  const long = `${'x'.repeat(16 * 1024 - 100)} ${'/'.padEnd(20_000, 'deep/')}`
  const command = `printf '%s' '${long}'; sleep 0.2; echo deeper; printf 'hal'; sleep 0.5; echo f; exec sleep 60`
  const replica = ProcessReplica.launch(join(folder, 'copies'), { command, cwd: folder, env, port: 1 })
  const lines: string[] = []
  await waitFor(
    () =>
      lines.push(...replica.readLines().map(({ text }) => text)) >= 1 &&
      fs.readFileSync(join(replica.folder, 'log'), 'utf8').endsWith('hal'),
  )
  replica.readLines()
  replica.release()
  const [adopted] = await ProcessReplica.adopt(join(folder, 'copies'), 0, () => {})
  await waitFor(() => lines.push(...adopted!.readLines().map(({ text }) => text)) >= 2)
  expect(lines).toEqual([`${'x'.repeat(16 * 1024 - 100)} …`, 'half'])
  await adopted!.end(0)
  fs.rmSync(folder, { recursive: true })
})
