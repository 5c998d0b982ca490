// `slipway completion`: the functions that real shells call, with the command line behind them.
import { spawnSync } from 'node:child_process'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { newTenant, type Tenant } from '../support/app.ts'
import { keyEnv, MAIN, makeFolder, runProgram, serveApp, startCli } from '../support/cli.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'

/** Typed words, and what the shell is given for the last one. */
type Line = [words: string[], found: string[]]
const LINES: Line[] = [
  [
    ['env', ''],
    ['list', 'set', 'unset', 'import', 'edit', 'help'],
  ],
  [['status', 'sh'], ['shop']],
  [
    ['logs', '--re'],
    ['--request', '--requests', '--revision'],
  ],
  [['rollback', 'shop', '--timeout', '9', ''], ['1']],
  [['logs', 'shop', '--revision', ''], ['1']],
  [['env', 'unset', 'shop', 'TOKEN', 'T'], ['TOKEN']],
]
const quote = (words: string[]) => words.map(word => `'${word}'`).join(' ')

const inBash = ([words]: Line) => `COMP_WORDS=(slipway ${quote(words)}) COMP_CWORD=${words.length}
_slipway
echo "\${COMPREPLY[*]}"`

/** Completion runs only inside the line editor, so the test has the builtins that the function calls. */
const BUILTINS = `compadd() { echo -n "\${(P)2}" }
_files() {}
compdef() {}`
const inZsh = ([words]: Line) => `words=(slipway ${quote(words)}) CURRENT=${words.length + 1}
_slipway
echo`

const SHELLS = [
  { shell: 'bash', builtins: '', toScript: inBash, lines: LINES },
  { shell: 'zsh', builtins: BUILTINS, toScript: inZsh, lines: LINES.slice(0, 2) },
]
const isInstalled = (shell: string) => spawnSync(shell, ['-c', 'true']).status === 0

describe('completion', () => {
  let url: string
  let tenant: Tenant
  beforeAll(async () => {
    url = (await serveApp()).url
    tenant = await newTenant()
    await tenant.post('/v2/deployments', makeImageBody({ name: 'shop' }))
  })

  const shells = SHELLS.filter(({ shell }) => isInstalled(shell))
  it.each(shells)('in $shell has commands, options and names', async ({ shell, builtins, toScript, lines }) => {
    const bin = makeFolder({ slipway: `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n` })
    chmodSync(join(bin, 'slipway'), 0o755)
    const script = [builtins, `eval "$(slipway completion ${shell})"`, ...lines.map(toScript)].join('\n')
    const env = { ...keyEnv(url, tenant), SLIPWAY_COMPLETION_MS: '20000', PATH: `${bin}:${process.env.PATH}` }
    const { code, out, err } = await runProgram([shell, '-c', script], { env }).exited
    expect([code, err]).toEqual([0, ''])
    const shown = out.trimEnd().split('\n')
    expect(shown.map(line => line.split(' '))).toEqual(lines.map(([, found]) => found))
  })

  it('offers no name of a server that a shell would run', async () => {
    const names = ['$(id)', '`id`', 'a;id', '*', 'a b', '\x1b[2J', 'shop'].map(name => ({ name }))
    const hostile = await serveApp(async () => Response.json({ resources: names, offset: 0 }))
    const env = { ...keyEnv(hostile.url, tenant), SLIPWAY_COMPLETION_MS: '20000' }
    const { out } = await startCli(['__complete', '--', 'status', ''], { env }).exited
    expect(out).toBe('shop\n')
  })

  it('gives up silently when the installation does not answer', async () => {
    const silent = await serveApp(() => new Promise(() => {}))
    const env = keyEnv(silent.url, tenant)
    const { code, out, err } = await startCli(['__complete', '--', 'status', ''], { env }).exited
    expect([code, out, err]).toEqual([0, '', ''])
  })
})
