// The dashboard: a client of the public API.
import { render } from 'preact'
import type { Me } from './api/client.ts'

render(<p>Hello</p>, document.body)

export type { Me }
