// The props of every screen. This file is apart from the table of screens, which imports each of them.
import type { Me } from '../api/client.ts'

export type ScreenProps<Params = Record<string, string>> = { workspace: string; params: Params; me: Me }
