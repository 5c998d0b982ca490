import { createConfig, lintFromString } from '@redocly/openapi-core'
import { expect, it } from 'vitest'
import { operations } from '../../src/app.ts'
import { buildOpenApi } from '../../src/kernel/openapi.ts'

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
    // Paths of published clients. The router prefers a literal segment, and no id of a run is `rules` or `threads`.
    /^no-ambiguous-paths .*`\/runs\/\{run_id\}\/share` and `\/runs\/(rules\/\{rule_id\}|threads\/\{thread_id\})`/,
  ]
  expect(found.filter(line => !accepted.some(pattern => pattern.test(line)))).toEqual([])
})
