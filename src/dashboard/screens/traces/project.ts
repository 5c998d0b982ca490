// A tracing project, which is a session on the wire.
import type { Reply } from '../../api/client.ts'

export type Project = Reply<'GET /sessions/{session_id}'>
