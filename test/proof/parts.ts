// The parts of `npm run proof`: a command each, which ends with its counts.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CHDB, isChdbInstalled } from '../support/clickhouse.ts'
import { findMissingTools } from '../support/container-tools.ts'

export const ROOT = join(import.meta.dirname, '../..')
const TRIALS = join(import.meta.dirname, 'trials')

export type Part = {
  name: string
  about: string
  command: string[]
  env?: Record<string, string>
  /** It is stopped, and has failed, after this time. */
  minutes: number
  /** The reason why this machine cannot run it. */
  findObstacle?: () => string | undefined
  /** Makes it possible, with `--install`. */
  install?: string[]
  /** It installs what it lacks itself, if its command ends with `--install`. */
  takesInstall?: boolean
}

const node = (...args: string[]) => [process.execPath, ...args]
const vitest = (...projects: string[]) =>
  node('node_modules/vitest/vitest.mjs', 'run', ...projects.flatMap(name => ['--project', name]))

/** Trials are the scripts of their folder. The comment at the start of one says what it shows. */
const trials: Part[] = readdirSync(TRIALS)
  .filter(file => /\.(sh|ts)$/.test(file))
  .map(file => {
    const path = join('test/proof/trials', file)
    const comment = readFileSync(join(ROOT, path), 'utf8')
      .split('\n')
      .find(line => /^(#|\/\/) /.test(line))!
    return {
      name: `trial-${file.slice(0, file.lastIndexOf('.'))}`,
      about: comment.replace(/^(#|\/\/) /, ''),
      command: file.endsWith('.ts') ? node(path) : ['bash', path],
      minutes: 60,
      takesInstall: true,
    }
  })

export const parts: Part[] = [
  {
    name: 'bench',
    about: 'Performance figures beside their targets.',
    command: node('test/proof/bench/run.ts'),
    minutes: 60,
  },
  { name: 'faults', about: 'Reliability under faults.', command: node('test/proof/faults/run.ts'), minutes: 60 },
  {
    name: 'conformance',
    about: 'The MCP conformance suite.',
    command: node('test/proof/conformance/run.ts'),
    minutes: 20,
  },
  {
    name: 'kit',
    about: 'The agent of this repository against PROTOCOL.md.',
    command: node('test/proof/kit/run.ts', process.execPath, 'src/agent/main.ts', '--stop'),
    env: { AGENT_ALLOWED_NETWORKS: '127.0.0.0/8' },
    minutes: 20,
  },
  {
    name: 'mutants',
    about: 'Changes of the pure cores that no test notices.',
    command: node('test/proof/mutants/run.ts'),
    minutes: 90,
  },
  {
    name: 'containers',
    about: 'Tests with container engines.',
    command: vitest('containers'),
    minutes: 40,
    findObstacle: () => {
      const missing = findMissingTools()
      return missing.length > 0 ? `not installed: ${missing.join(', ')}` : undefined
    },
    install: ['scripts/container_tools.sh'],
  },
  {
    name: 'clickhouse',
    about: 'Tests of traces on ClickHouse.',
    command: vitest('clickhouse'),
    minutes: 40,
    findObstacle: () => (isChdbInstalled() ? undefined : `not installed: ${CHDB}`),
    // The tests install it.
    install: ['true'],
  },
  {
    name: 'runtimes',
    about: 'All tests of the app on Node, workerd, Deno and Bun.',
    command: vitest('pure', 'node', 'programs', 'edge', 'deno', 'bun'),
    env: { RUNTIMES: 'all' },
    minutes: 90,
  },
  {
    name: 'fuzz',
    about: 'Ten thousand bad requests with a new seed.',
    command: ['npm', 'run', '--silent', 'fuzz'],
    minutes: 60,
  },
  ...trials,
]
