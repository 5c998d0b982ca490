// The commands of the pages, pasted into a shell against a real `npm run dev`, answer what the pages say.
import { execFile } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { type Command, startCommand, startDemoServer, stopCommands } from '../support/commands.ts'
import { startLocalGitea } from '../support/local-gitea.ts'

const ROOT = join(import.meta.dirname, '../..')
const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-docs-'))
const home = join(folder, '.slipway')

/** Pages whose `sh` blocks run here, from top to bottom, but for those that start with npm or node. */
const RUNNING = [
  'README',
  'docs/operate-a-deployment',
  'docs/deploy-from-source',
  'docs/deploy-from-git',
  'docs/runtime',
  'docs/databases',
  'docs/api-keys',
  'docs/limits',
  'docs/oauth',
  'docs/secrets',
]
const NEEDS: Record<string, string> = {
  'docs/README': 'has no commands',
  'docs/containers': 'container tools; npm run test:containers',
  'docs/custom-domains': 'an installation in mode self_hosted and a DNS record; deployments/custom-hosts.test.ts',
  'docs/database-logins': 'a Postgres of the operator; host/node.test.ts',
  'docs/kubernetes': 'a cluster; agent/kubernetes/docs.test.ts checks its tables',
  'docs/operating': 'a machine of its own; scripts/operating_trial.sh plays it',
  'docs/previews': 'a git host; pushes/previews.test.ts',
  'docs/processes': 'root; agent/users.test.ts',
  'docs/registry': 'a registry; deployments/registry.test.ts',
  'docs/self-host': 'a Postgres of the operator; host/node.test.ts',
  'docs/settings': 'a Postgres of the operator; host/node.test.ts',
}

const readPage = (page: string) => fs.readFileSync(join(ROOT, `${page}.md`), 'utf8')
const listPages = () =>
  fs
    .readdirSync(join(ROOT, 'docs'))
    .filter(name => name.endsWith('.md'))
    .map(name => `docs/${name.slice(0, -3)}`)
/** Commands, and the answer that the page shows, if any. */
const readBlocks = (page: string) =>
  [...readPage(page).matchAll(/```sh\n(.*?)```(?:\n```json\n(.*?)```)?/gs)]
    .map(([, commands, answer]) => ({ commands: commands!, answer }))
    .filter(({ commands }) => !/^(npm|node) /.test(commands))

const SEPARATOR = '\u241e'
const withoutSpace = (text: string) => text.replace(/\s+/g, '')
const escapeRegExp = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
/** An ellipsis in the shown answer stands for any text. */
const toPattern = (answer: string) =>
  new RegExp(`^${withoutSpace(answer).split('…').map(escapeRegExp).join('.*?')}$`, 's')

let dev: Command
let demo: Awaited<ReturnType<typeof startDemoServer>>
let gitea: Awaited<ReturnType<typeof startLocalGitea>>
beforeAll(async () => {
  fs.symlinkSync(join(ROOT, 'docs'), join(folder, 'docs'))
  dev = startCommand('src/host/dev.ts', [`--port=${await findFreePort()}`], { SLIPWAY_HOME: home })
  await dev.until(() => fs.existsSync(join(home, 'dev.json')))
  demo = await startDemoServer()
  gitea = await startLocalGitea(join(folder, 'git'))
  await pushApplication(gitea.create('acme/shop'))
})
afterAll(async () => {
  await stopCommands()
  gitea.close()
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 9 })
})

const runShell = (script: string) => promisify(execFile)('bash', ['-c', script], { cwd: folder })
/** The smallest application that builds from git. */
async function pushApplication(remote: string): Promise<void> {
  const server = "require('http').createServer((_, res) => res.end('shop')).listen(process.env.PORT)"
  await runShell(`
    git init -q -b main work && cd work
    echo '{"start_command": "node server.cjs"}' > slipway.json
    echo "${server}" > server.cjs
    git add . && git -c user.name=Ada -c user.email=ada@example.com commit -qm 'Start' && git push -q ${remote} main`)
}

it.each(RUNNING)('%s: its commands answer what it says', async page => {
  const blocks = readBlocks(page)
  expect(blocks.length).toBeGreaterThan(0)
  const withLocalServers = (text: string) =>
    text
      .replaceAll('http://localhost:3000', demo.mcp)
      .replaceAll('http://localhost:3001', demo.auth)
      .replaceAll('https://git.example.com', gitea.origin)
      .replaceAll('YOUR-TOKEN', 'hush-token')
  const script = blocks.map(({ commands }) => `${withLocalServers(commands)}\necho '${SEPARATOR}'\n`).join('')
  const { stdout, stderr } = await runShell(script)
  expect(stderr).toBe('')
  const answers = stdout.split(SEPARATOR)
  for (const [i, { commands, answer }] of blocks.entries()) {
    expect(answers[i], commands).not.toContain('"request_id"')
    if (answer) expect(withoutSpace(answers[i]!), commands).toMatch(toPattern(withLocalServers(answer)))
  }
})

test('the last line that npm run dev prints deploys an application that answers', async () => {
  const lastLine = dev.said.out.split('\n').findLast(line => line.startsWith('curl '))!
  expect((await runShell(lastLine)).stdout).toContain('{"service":"hello"')
})

describe('the pages', () => {
  it('begin with commands, and each page either runs here or says what it needs', () => {
    expect(['README', ...listPages()].sort()).toEqual([...RUNNING, ...Object.keys(NEEDS)].sort())
    for (const page of listPages().filter(page => page !== 'docs/README'))
      expect(readPage(page).split('\n```sh\n')[0]!.split('\n').length, page).toBeLessThan(12)
  })

  it('are all in the index, and link to files that exist', () => {
    const index = readPage('docs/README')
    for (const page of listPages().filter(page => page !== 'docs/README'))
      expect(index, page).toContain(`(${page.slice(5)}.md)`)
    const pages = ['README', 'ARCHITECTURE', 'CONTRIBUTING', 'SECURITY', 'PROTOCOL', ...listPages()]
    for (const page of pages)
      for (const [, target] of readPage(page).matchAll(/\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)/g))
        expect(fs.existsSync(join(ROOT, page, '..', target!)), `${page} links to ${target}`).toBe(true)
  })

  it('of the front are short', () => {
    for (const page of ['README', 'ARCHITECTURE'])
      expect(readPage(page).split('\n').length, page).toBeLessThanOrEqual(150)
  })
})
