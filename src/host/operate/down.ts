// `slipway down`: stops what `slipway up` has started, applications included, and leaves all data.
import * as fs from 'node:fs'
import { parseArgs } from 'node:util'
import { UNIT_NAMES, unitFile } from './systemd-units.ts'
import { findForeignUnits, isActive, run } from './up-checks.ts'
import { lockRun } from './up-run.ts'

const USAGE = `slipway down

Stops Slipway and all applications on this machine, and removes its units. Run it as root. Settings, uploads, builds
and databases stay, so that \`slipway up\` starts everything again.`

export const main = (): Promise<void> =>
  runDown().catch((error: Error) => {
    console.error(error.message)
    process.exitCode = 1
  })

async function runDown(): Promise<void> {
  const { values } = parseArgs({ options: { help: { type: 'boolean', short: 'h' } } })
  if (values.help) return console.log(USAGE)
  if (process.getuid?.() !== 0) throw new Error('It needs root. Run it with sudo.')
  const [foreign] = findForeignUnits()
  lockRun()
  if (foreign) throw new Error(`Nothing was stopped: ${foreign} was not written by \`slipway up\`. Rename it first.`)
  for (const unit of UNIT_NAMES.toReversed()) {
    run('systemctl', ['disable', '--now', '--quiet', unit])
    // Applications and the router are in the group of the agent.
    run('systemctl', ['kill', '--kill-whom=all', '--signal=SIGKILL', unit])
    if (isActive(unit)) throw new Error(`${unit} does not stop. Run \`systemctl status ${unit}\` to see why.`)
    fs.rmSync(unitFile(unit), { force: true })
  }
  run('systemctl', ['daemon-reload'])
  console.log(`Stopped. To delete the data too, remove /etc/slipway /etc/slipway-proxy /var/lib/slipway
/var/lib/slipway-agent /var/lib/slipway-proxy, the users slipway and slipway-proxy, and the database.`)
}
