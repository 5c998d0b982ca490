import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { expect, it } from 'vitest'
import { loadOperations } from '../../src/app.ts'
import { buildOpenApi } from '../../src/kernel/http/openapi.ts'

const operations = await loadOperations()
const document = buildOpenApi(operations)

it('the OpenAPI document passes the linter without errors and warnings', async () => {
  const config = await createConfig({
    extends: ['recommended-strict'],
    rules: { 'no-server-example.com': 'off', 'operation-description': 'error', 'info-contact': 'error' },
  })
  const problems = await lintFromString({
    source: JSON.stringify(document),
    absoluteRef: 'openapi.json',
    config,
  })
  const found = problems.map(problem => `${problem.ruleId} ${problem.message} ${problem.location[0]?.pointer}`)
  const accepted = [
    // Browsers navigate to these routes, which succeed with a redirect.
    /^operation-2xx-response .*\/~1sign-in~1oidc/,
    // A WebSocket succeeds with 101.
    /^operation-2xx-response .*~1tunnels~1\{tunnel_id\}/,
    // Paths of published clients. The router prefers a literal segment, and no id is such a word.
    /^no-ambiguous-paths .*`\/runs\/(rules|threads)\/\{\w+\}`/,
    /^no-ambiguous-paths .*`\/datasets\/comparative\/\{comparative_experiment_id\}`/,
    /^no-ambiguous-paths .*`\/sessions\/\{session_id\}\/insights\/configs\/\{config_id\}`/,
    /^no-ambiguous-paths .*`\/annotation-queues\/status\/\{queue_run_id\}`/,
  ]
  expect(found.filter(line => !accepted.some(pattern => pattern.test(line)))).toEqual([])
})

/** Some rules of Spectral. `npm run trial -- clients` runs all of them. */
it('the OpenAPI document has defaults of their type, schemas for items, and patterns that need no flag', () => {
  const faults: string[] = []
  const visit = (value: unknown, path: string): void => {
    if (typeof value !== 'object' || value === null) return
    const { type, default: initial, items, pattern } = value as Record<string, unknown>
    if (type === 'string' && initial !== undefined && typeof initial !== 'string') faults.push(`${path} default`)
    if (typeof pattern === 'string' && /\\p\{/i.test(pattern)) faults.push(`${path} pattern`)
    if (type === 'array' && typeof items !== 'object') faults.push(`${path} items`)
    for (const [name, member] of Object.entries(value)) if (name !== 'example') visit(member, `${path}/${name}`)
  }
  visit(document, '')
  expect(faults).toEqual([])
})

const RECORD = join(import.meta.dirname, '../support/operation-ids.json')

/** Generated clients have functions with these names. `RECORD_OPERATIONS=1` records new ones. */
it('operations keep their ids, and all of them are recorded', () => {
  const recorded = JSON.parse(readFileSync(RECORD, 'utf8')) as Record<string, string>
  const current = Object.fromEntries(operations.map(({ id, method, path }) => [id, `${method.toUpperCase()} ${path}`]))
  const changed = Object.entries(recorded).filter(([id, route]) => current[id] !== route)
  expect(changed).toEqual([])
  if (process.env.RECORD_OPERATIONS) {
    const sorted = Object.entries(current).toSorted(([a], [b]) => (a < b ? -1 : 1))
    writeFileSync(RECORD, `${JSON.stringify(Object.fromEntries(sorted), null, 2)}\n`)
  } else {
    expect(Object.keys(current).filter(id => !Object.hasOwn(recorded, id))).toEqual([])
  }
})
