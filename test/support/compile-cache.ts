// A setup file: Node keeps what it compiles, as in the commands that tests start. Routers of agents share it.
import { enableCompileCache } from 'node:module'

enableCompileCache()
