// Routes of tags on every kind of resource, at the paths that clients of the reference use.
import { slice } from '../../kernel/http/routes.ts'
import * as taggings from './taggings.ts'
import { TagKeyRef } from './tags.schema.ts'
import * as s from './workspace-tags.schema.ts'
import * as tags from './workspace-tags.ts'

const CURRENT = '/workspaces/current'

export const workspaceTagRoutes = slice('Resource tags', 'Tags of projects, datasets and deployments, in one place.')
  .get(`${CURRENT}/tag-keys`, {
    id: 'listWorkspaceTagKeys',
    summary: 'List the tag keys of this workspace',
    description:
      'All keys in the order of their names, in one answer without pages. They are the keys of `/v2/tag-keys`.',
    reply: s.WorkspaceTagKeys,
    verb: tags.listKeys,
  })
  .post(`${CURRENT}/tag-keys`, {
    id: 'createWorkspaceTagKey',
    summary: 'Create a tag key',
    description: 'The same keys as `/v2/tag-keys`, with a description. A workspace can have 100.',
    body: s.NewWorkspaceTagKey,
    reply: s.WorkspaceTagKey,
    errors: ['tag_key_taken', 'tag_keys_full'],
    verb: tags.createKey,
  })
  .get(`${CURRENT}/tag-keys/{tag_key_id}`, {
    id: 'readWorkspaceTagKey',
    versioned: true,
    summary: 'Read a tag key',
    description: 'The key with its description, without its values.',
    params: TagKeyRef,
    reply: s.WorkspaceTagKey,
    errors: ['tag_key_not_found'],
    verb: tags.readKey,
  })
  .patch(`${CURRENT}/tag-keys/{tag_key_id}`, {
    id: 'changeWorkspaceTagKey',
    versioned: true,
    summary: 'Rename or describe a tag key',
    description:
      'Ids stay, so resources keep their tags. Access policies name keys by their text: a policy about the old name ' +
      'no longer applies.',
    params: TagKeyRef,
    body: s.WorkspaceTagKeyPatch,
    reply: s.WorkspaceTagKey,
    errors: ['tag_key_not_found', 'tag_key_taken'],
    verb: tags.changeKey,
  })
  .delete(`${CURRENT}/tag-keys/{tag_key_id}`, {
    id: 'deleteWorkspaceTagKey',
    versioned: true,
    summary: 'Delete a tag key with its values, and remove them from all resources',
    description: 'Projects, datasets, annotation queues and deployments lose the tag. It cannot be undone.',
    params: TagKeyRef,
    reply: s.Deleted,
    errors: ['tag_key_not_found'],
    verb: tags.deleteKey,
  })
  .get(`${CURRENT}/tag-keys/{tag_key_id}/tag-values`, {
    id: 'listWorkspaceTagValues',
    summary: 'List the values of a tag key',
    description: 'All values in the order of their names, in one answer without pages.',
    params: TagKeyRef,
    reply: s.WorkspaceTagValues,
    errors: ['tag_key_not_found'],
    verb: tags.listValues,
  })
  .post(`${CURRENT}/tag-keys/{tag_key_id}/tag-values`, {
    id: 'createWorkspaceTagValue',
    summary: 'Create a value of a tag key',
    description:
      'The `id` of the answer is what `POST /workspaces/current/taggings` and `tag_value_ids` take. A key can have ' +
      '1,000 values.',
    params: TagKeyRef,
    body: s.NewWorkspaceTagValue,
    reply: s.WorkspaceTagValue,
    errors: ['tag_key_not_found', 'tag_value_taken', 'tag_values_full'],
    verb: tags.createValue,
  })
  .get(`${CURRENT}/tag-keys/{tag_key_id}/tag-values/{tag_value_id}`, {
    id: 'readWorkspaceTagValue',
    versioned: true,
    summary: 'Read a tag value',
    description: 'The value must belong to the key in the path.',
    params: s.TagValueOfKeyRef,
    reply: s.WorkspaceTagValue,
    errors: ['tag_value_not_found'],
    verb: tags.readValue,
  })
  .patch(`${CURRENT}/tag-keys/{tag_key_id}/tag-values/{tag_value_id}`, {
    id: 'changeWorkspaceTagValue',
    versioned: true,
    summary: 'Rename or describe a tag value',
    description:
      'The id stays, so resources keep the tag. Access policies compare the text: a policy about the old value no ' +
      'longer applies.',
    params: s.TagValueOfKeyRef,
    body: s.WorkspaceTagValuePatch,
    reply: s.WorkspaceTagValue,
    errors: ['tag_value_not_found', 'tag_value_taken'],
    verb: tags.changeValue,
  })
  .delete(`${CURRENT}/tag-keys/{tag_key_id}/tag-values/{tag_value_id}`, {
    id: 'deleteWorkspaceTagValue',
    versioned: true,
    summary: 'Delete a tag value, and remove it from all resources',
    description: 'It cannot be undone. The key and its other values stay.',
    params: s.TagValueOfKeyRef,
    reply: s.Deleted,
    errors: ['tag_value_not_found'],
    verb: tags.deleteValue,
  })
  .get(`${CURRENT}/taggings`, {
    id: 'listTaggings',
    summary: 'List tagged resources, by their tags',
    description:
      'Grouped by tag, and then by the kind of resource. Resources that the caller may not read are left out.',
    query: s.TaggingQuery,
    reply: s.Taggings,
    verb: taggings.listTaggings,
  })
  .post(`${CURRENT}/taggings`, {
    id: 'createTagging',
    summary: 'Add a tag to a resource',
    description:
      'A tag with the key `Application` takes the permission to update the resource, another key `workspaces:update`.',
    body: s.NewTagging,
    reply: s.Tagging,
    errors: ['resource_not_found', 'tag_value_not_found', 'tags_full', 'denied_by_policy'],
    verb: taggings.createTagging,
  })
  .delete(`${CURRENT}/taggings/{tagging_id}`, {
    id: 'deleteTagging',
    summary: 'Remove a tag from a resource',
    description: 'It takes the permissions that adding the tag takes. The tag and the resource stay.',
    params: s.TaggingRef,
    reply: s.Deleted,
    errors: ['tagging_not_found', 'denied_by_policy'],
    verb: taggings.deleteTagging,
  })
  .get(`${CURRENT}/tags`, {
    id: 'listWorkspaceTags',
    summary: 'List the tag keys of this workspace with their values',
    description: 'Keys and values in one answer, ordered by name, for a form that chooses tags.',
    reply: s.WorkspaceTags,
    verb: tags.listTags,
  })
  .get(`${CURRENT}/tags/resource`, {
    id: 'listResourceTags',
    summary: 'List the tags of a resource',
    description: 'By `resource_type` and `resource_id`, for any kind of resource that the caller may read.',
    query: s.ResourceTagQuery,
    reply: s.ResourceTags,
    errors: ['resource_not_found'],
    verb: taggings.listResourceTags,
  })
