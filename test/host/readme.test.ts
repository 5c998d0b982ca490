// Runs the README's commands against a real `npm run dev`, and compares their output with the README.
import { execFile } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, expect, test } from 'vitest'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { startCommand, startDemoServer, stopCommands } from '../support/commands.ts'

const root = fs.mkdtempSync(join(tmpdir(), 'slipway-readme-'))
afterEach(stopCommands)
afterAll(() => fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 }))

const readme = fs.readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8')
const section = (heading: string) => readme.split(`\n## ${heading}\n`)[1]!.split('\n## ')[0]!
/** Commands, and what the README says that they answer, where it does. */
const blocks = ['A first minute', 'A first application in a minute', 'From source', 'Connect people']
  .flatMap(heading => [...section(heading).matchAll(/```sh\n(.*?)```(?:\n```json\n(.*?)```)?/gs)])
  .map(([, commands, answer]) => ({ commands: commands!, answer }))
  .filter(({ commands }) => !/^(npm|node) /.test(commands))

const BETWEEN = '\u241e'
const bare = (text: string) => text.replace(/\s+/g, '')
const literally = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
/** What it shortens may be anything. */
const meant = (answer: string) => new RegExp(`^${bare(answer).split('…').map(literally).join('.*?')}$`, 's')

test('the commands of the README print what the README shows', async () => {
  expect(blocks.length).toBeGreaterThan(4)
  const home = join(root, '.slipway')
  const dev = startCommand('src/host/dev.ts', [`--port=${await findFreePort()}`], { SLIPWAY_HOME: home })
  await dev.until(() => fs.existsSync(join(home, 'dev.json')))
  const demo = await startDemoServer()
  // The ports of the README may be somebody's here.
  const here = (text: string) =>
    text.replaceAll('http://localhost:3000', demo.mcp).replaceAll('http://localhost:3001', demo.auth)
  const script = blocks.map(({ commands }) => `${here(commands)}\necho '${BETWEEN}'\n`).join('')
  const { stdout, stderr } = await promisify(execFile)('bash', ['-c', script], { cwd: root })
  expect(stderr).toBe('')
  const answers = stdout.split(BETWEEN)
  for (const [i, { commands, answer }] of blocks.entries()) {
    expect(answers[i], commands).not.toContain('"request_id"')
    if (answer) expect(bare(answers[i]!), commands).toMatch(meant(here(answer)))
  }
  // The last line that it printed itself, before any request.
  const last = dev.said.out.split('\n').findLast(line => line.startsWith('curl '))!
  expect((await promisify(execFile)('bash', ['-c', last], { cwd: root })).stdout).toContain('{"service":"hello"')
})
