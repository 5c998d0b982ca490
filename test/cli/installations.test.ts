// A command chooses one of several running `npm run dev`, and shows which.
import * as fs from 'node:fs'
import { beforeAll, expect, it, vi } from 'vitest'
import { configFile, writeLink } from '../../src/cli/settings.ts'
import { newTenant, type Tenant } from '../support/app.ts'
import { makeFolder, serveApp } from '../support/cli.ts'
import { startHere } from '../support/cli-here.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'

const OTHER = 'http://127.0.0.1:9'
let url: string
beforeAll(async () => {
  url = (await serveApp()).url
})

/** Two run: that of the tests, and one that was started after it and answers nothing. */
function makeMachine({ key }: Pick<Tenant, 'key'>) {
  const folder = makeFolder({ 'package.json': '{"name": "shop"}' })
  const run = (...args: string[]) => {
    vi.stubEnv('SLIPWAY_CONFIG_HOME', `${folder}/.config`)
    fs.mkdirSync(configFile('dev'), { recursive: true })
    for (const [i, at] of [url, OTHER].entries()) {
      const file = configFile(`dev/${i}.json`)
      fs.writeFileSync(file, JSON.stringify({ url: at, api_key: key, pid: process.pid }))
      fs.utimesSync(file, i, i)
    }
    return startHere({ url: undefined, key: undefined }, args).ended
  }
  return { folder, run }
}

it.each([[['deploy']], [['plan']], [['list']], [['delete', 'shop', '--yes']]])(
  'lists several for %j without a terminal, and chooses none',
  async ([command, ...args]) => {
    const { folder, run } = makeMachine(await newTenant())
    const given = command === 'deploy' || command === 'plan' ? [folder] : args
    const { code, error, out, err } = await run(command!, ...given)
    expect([code, error?.code, out, err]).toEqual([2, 'several_installations', '', ''])
    expect(error?.message).toContain(`${OTHER}, ${url}`)
  },
)

it('prints the installation first, on standard error', async () => {
  const tenant = await newTenant()
  const { folder, run } = makeMachine(tenant)
  const { body } = await tenant.post('/v2/deployments', makeImageBody({ name: 'shop' }))
  vi.spyOn(process, 'cwd').mockReturnValue(folder)
  writeLink(folder, { url, deployment_id: body.id, name: 'shop' })
  const { code, objects, err } = await run('status')
  expect([code, objects.length > 0]).toEqual([0, true])
  expect(objects.filter(({ type }) => type === 'installation')).toEqual([])
  expect(JSON.parse(err.split('\n')[0]!)).toMatchObject({ type: 'installation', url })
})
