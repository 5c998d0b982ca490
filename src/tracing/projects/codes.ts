// Error codes of projects.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const projectsCodes = {
  project_not_found: {
    status: 404,
    title: 'Project not found',
    problem: 'This tracing project was not found.',
    remedy: 'GET /sessions lists the projects.',
  },
  view_not_found: {
    status: 404,
    title: 'View not found',
    problem: 'This view of the project was not found.',
    remedy: 'GET /sessions/{session_id}/views lists the views.',
  },
  thread_not_found: {
    status: 404,
    title: 'Thread not found',
    problem: 'This thread was not found.',
    remedy: 'POST /runs/group lists threads.',
  },
  project_of_deployment: {
    status: 409,
    title: 'Project of a deployment',
    problem: 'This tracing project belongs to a deployment, with which it shares its name.',
    remedy: 'Delete the deployment to delete it, or use another project.',
  },
  project_id_taken: {
    status: 409,
    title: 'Project id taken',
    problem: 'A tracing project with this `id` already exists.',
    remedy: 'Choose another id, or leave it out.',
  },
  project_name_taken: {
    status: 409,
    title: 'Project name taken',
    problem: 'This workspace already has a tracing project with this `name`, and each deployment needs its own.',
    remedy: 'Choose another name. `POST /sessions?upsert=true` returns a project that exists.',
  },
} as const satisfies ErrorCodes
