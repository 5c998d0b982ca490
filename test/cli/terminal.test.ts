// `slipway` on a terminal: tables, colors, and questions. The pseudo-terminal is util-linux's `script`.
import { spawnSync } from 'node:child_process'
import { stripVTControlCharacters } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { newTenant } from '../support/app.ts'
import { keyEnv, makeFolder, serveApp, startCliOnTerminal } from '../support/cli.ts'
import { waitFor } from '../support/commands.ts'
import { listRevisions, reportRevision } from '../support/deployments.ts'

const hasScript = spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux') === true

describe.runIf(hasScript)('on a terminal', () => {
  let url: string
  beforeAll(async () => {
    url = (await serveApp()).url
  })
  const newShop = async () => {
    const tenant = await newTenant()
    const cwd = makeFolder({ 'package.json': '{"name": "shop"}' })
    return { tenant, options: { cwd, env: keyEnv(url, tenant) } }
  }

  it('a first deploy shows its plan, asks one question, and ends with the URL', async () => {
    const { tenant, options } = await newShop()
    const { exited, type, screen } = startCliOnTerminal(['deploy'], options)
    await waitFor(() => screen().includes('[y/N]'))
    expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
    type('y\r')
    const revision = await waitFor(async () => {
      const { resources } = (await tenant.get('/v2/deployments')).body
      return resources[0] && (await listRevisions(tenant, resources[0].id)).find(({ number }) => number === 2)
    })
    const ref = { deployment_id: revision.deployment_id, revision_id: revision.id }
    await reportRevision(ref, 'deployed', { url: 'http://shop.localhost:9000' })
    const { code, screen: shown } = await exited
    expect(code).toBe(0)
    expect(shown).toContain('\x1b[')
    const lines = stripVTControlCharacters(shown).split(/\r?\n/)
    expect(lines.filter(line => line.includes('[y/N]')).length).toBe(1)
    expect(lines.filter(line => line.startsWith('{'))).toEqual([])
    expect(lines.findLast(line => line.trim() !== '')).toContain('http://shop.localhost:9000')
  })

  it.each([
    ['n\r', 1],
    ['\x03', 130],
  ])('the answer %j to the question of a first deploy leaves everything as it was', async (answer, exitCode) => {
    const { tenant, options } = await newShop()
    const { exited, type, screen } = startCliOnTerminal(['deploy'], options)
    await waitFor(() => screen().includes('[y/N]'))
    type(answer)
    expect((await exited).code).toBe(exitCode)
    expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
  })

  it('Ctrl-C at a hidden prompt ends the command', async () => {
    const { exited, type, screen } = startCliOnTerminal(
      ['login', '--url', url, '--with-key'],
      (await newShop()).options,
    )
    await waitFor(() => screen().includes('API key'))
    type('hush\x03')
    expect((await exited).code).toBe(130)
  })

  it('a secret that is typed is not shown', async () => {
    const { tenant, options } = await newShop()
    const body = { name: 'shop', source: 'internal_template', source_config: { template_id: 'web-service' } }
    const secrets = [{ name: 'TOKEN', value: 'old' }]
    const { id } = (await tenant.post('/v2/deployments', { ...body, source_revision_config: {}, secrets })).body
    const args = ['env', 'set', 'shop', 'TOKEN', '--yes', '--detach']
    const { exited, type, screen } = startCliOnTerminal(args, options)
    await waitFor(() => screen().includes('Value of TOKEN'))
    type('hush-hush\r')
    const { code, screen: shown } = await exited
    expect([code, shown.includes('hush-hush')]).toEqual([0, false])
    const { secrets: stored } = (await tenant.get(`/v2/deployments/${id}?reveal=true`)).body
    expect(stored).toEqual([{ name: 'TOKEN', value: 'hush-hush' }])
  })
})
