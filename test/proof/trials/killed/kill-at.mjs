// Loaded before `slipway up`: kills the process before the step with the number KILL_AT. A step is a program that is
// run, a file that is written or renamed, or a statement that changes logins or creates the first keys.
import childProcess from 'node:child_process'
import fs from 'node:fs'
import { createRequire, syncBuiltinESMExports } from 'node:module'

const killAt = Number(process.env.KILL_AT)
let steps = 0
function step() {
  if (++steps === killAt) process.kill(process.pid, 'SIGKILL')
}
function stepBefore(object, name, isStep = () => true) {
  const original = object[name]
  object[name] = function (...args) {
    if (isStep(...args)) step()
    return original.apply(this, args)
  }
}
const pg = createRequire(import.meta.url)('pg')
const isOwn = path => /\/slipway|KILL_AT/.test(String(path))
stepBefore(fs, 'writeFileSync', isOwn)
stepBefore(fs, 'renameSync')
stepBefore(
  childProcess,
  'execFileSync',
  (program, [verb] = []) => ['useradd', 'systemctl'].includes(program) && verb !== 'is-active',
)
stepBefore(pg.Client.prototype, 'query', query =>
  typeof query === 'string' ? /^\s*(create role|alter role|grant slipway|commit)/i.test(query) : true,
)
syncBuiltinESMExports()
