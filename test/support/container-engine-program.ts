// A program that a test kills: opens a container engine, and starts one revision with it.

import { NO_EVENTS } from '../../src/agent/engine.ts'
import { ContainerEngine } from '../../src/agent/engines/container.ts'

const { options, unit, artifact } = JSON.parse(process.argv[2]!)
const engine = new ContainerEngine(options)
await engine.open({ ...NO_EVENTS, log: (_, message) => console.log(message) })
console.log('open')
await engine.start(unit, artifact)
await engine.route(unit)
console.log('started')
