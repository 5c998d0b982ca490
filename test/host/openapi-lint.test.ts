import { createConfig, lintFromString } from '@redocly/openapi-core'
import { expect, it } from 'vitest'
import { loadOperations } from '../../src/app.ts'
import { buildOpenApi } from '../../src/kernel/openapi.ts'

const operations = await loadOperations()

it('the OpenAPI document passes the linter without errors and warnings', async () => {
  const config = await createConfig({ extends: ['recommended-strict'], rules: { 'no-server-example.com': 'off' } })
  const problems = await lintFromString({
    source: JSON.stringify(buildOpenApi(operations)),
    absoluteRef: 'openapi.json',
    config,
  })
  const found = problems.map(problem => `${problem.ruleId} ${problem.message} ${problem.location[0]?.pointer}`)
  const accepted = [
    // Browsers navigate to these routes, which succeed with a redirect.
    /^operation-2xx-response .*\/~1sign-in~1oidc/,
    // Paths of published clients. The router prefers a literal segment, and no id is such a word.
    /^no-ambiguous-paths .*`\/runs\/(rules|threads)\/\{\w+\}`/,
    /^no-ambiguous-paths .*`\/datasets\/comparative\/\{comparative_experiment_id\}`/,
    /^no-ambiguous-paths .*`\/sessions\/\{session_id\}\/insights\/configs\/\{config_id\}`/,
    /^no-ambiguous-paths .*`\/annotation-queues\/status\/\{queue_run_id\}`/,
  ]
  expect(found.filter(line => !accepted.some(pattern => pattern.test(line)))).toEqual([])
})
