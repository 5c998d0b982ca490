// Error codes of previews.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const previewsCodes = {
  preview_policy_not_found: {
    status: 404,
    title: 'Preview policy not found',
    problem: 'This deployment has no preview policy.',
    remedy: 'PUT /v2/deployments/{deployment_id}/preview-policy creates one.',
  },
  preview_not_found: {
    status: 404,
    title: 'Preview not found',
    problem: 'This deployment has no such preview.',
    remedy: 'GET /v2/deployments/{deployment_id}/previews lists the previews.',
  },
  preview_moved: {
    status: 409,
    title: 'Commit changed',
    problem: 'This commit is not the one that waits for approval.',
    remedy: 'Read the preview again and approve its current commit.',
  },
  preview_followed: {
    status: 409,
    title: 'Preview follows its branch',
    problem: 'The preview policy keeps a preview of this branch.',
    remedy: 'Push to the branch, or choose another name as `branch`.',
  },
  preview_source_changed: {
    status: 409,
    title: 'Preview has another source',
    problem: 'The preview of this name was made from another source or ref.',
    remedy: 'Delete the preview first, or choose another name as `branch`.',
  },
  database_not_copied: {
    status: 409,
    title: 'Database cannot be copied',
    problem: 'Previews of this deployment cannot have a copy of this database.',
    remedy: 'Name a deployment of the same listener that has a database, or use the mode `empty`.',
  },
  previews_full: {
    status: 409,
    title: 'Too many previews',
    problem: 'The preview policy allows no more previews at the same time.',
    remedy: 'Close a pull request, delete a branch or a preview, or raise `max`.',
  },
} as const satisfies ErrorCodes
