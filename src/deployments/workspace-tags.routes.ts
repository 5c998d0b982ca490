// Routes of tags on every kind of resource, at the paths that clients of the reference use.
import { slice } from '../kernel/routes.ts'
import * as taggings from './taggings.ts'
import { TagKeyRef } from './tags.schema.ts'
import * as s from './workspace-tags.schema.ts'
import * as tags from './workspace-tags.ts'

const CURRENT = '/workspaces/current'

export const workspaceTagRoutes = slice('Resource tags', 'Tags of projects, datasets and deployments, in one place.')
  .get(`${CURRENT}/tag-keys`, {
    id: 'listWorkspaceTagKeys',
    summary: 'List the tag keys of this workspace',
    reply: s.WorkspaceTagKeys,
    verb: tags.listKeys,
  })
  .post(`${CURRENT}/tag-keys`, {
    id: 'createWorkspaceTagKey',
    summary: 'Create a tag key',
    body: s.NewWorkspaceTagKey,
    reply: s.WorkspaceTagKey,
    errors: ['tag_key_taken', 'tag_keys_full'],
    verb: tags.createKey,
  })
  .get(`${CURRENT}/tag-keys/{tag_key_id}`, {
    id: 'readWorkspaceTagKey',
    versioned: true,
    summary: 'Read a tag key',
    params: TagKeyRef,
    reply: s.WorkspaceTagKey,
    errors: ['tag_key_not_found'],
    verb: tags.readKey,
  })
  .patch(`${CURRENT}/tag-keys/{tag_key_id}`, {
    id: 'changeWorkspaceTagKey',
    versioned: true,
    summary: 'Rename or describe a tag key',
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
    params: TagKeyRef,
    reply: s.Deleted,
    errors: ['tag_key_not_found'],
    verb: tags.deleteKey,
  })
  .get(`${CURRENT}/tag-keys/{tag_key_id}/tag-values`, {
    id: 'listWorkspaceTagValues',
    summary: 'List the values of a tag key',
    params: TagKeyRef,
    reply: s.WorkspaceTagValues,
    errors: ['tag_key_not_found'],
    verb: tags.listValues,
  })
  .post(`${CURRENT}/tag-keys/{tag_key_id}/tag-values`, {
    id: 'createWorkspaceTagValue',
    summary: 'Create a value of a tag key',
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
    params: s.TagValueOfKeyRef,
    reply: s.WorkspaceTagValue,
    errors: ['tag_value_not_found'],
    verb: tags.readValue,
  })
  .patch(`${CURRENT}/tag-keys/{tag_key_id}/tag-values/{tag_value_id}`, {
    id: 'changeWorkspaceTagValue',
    versioned: true,
    summary: 'Rename or describe a tag value',
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
    params: s.TagValueOfKeyRef,
    reply: s.Deleted,
    errors: ['tag_value_not_found'],
    verb: tags.deleteValue,
  })
  .get(`${CURRENT}/taggings`, {
    id: 'listTaggings',
    summary: 'List tagged resources, by their tags',
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
    params: s.TaggingRef,
    reply: s.Deleted,
    errors: ['tagging_not_found', 'denied_by_policy'],
    verb: taggings.deleteTagging,
  })
  .get(`${CURRENT}/tags`, {
    id: 'listWorkspaceTags',
    summary: 'List the tag keys of this workspace with their values',
    reply: s.WorkspaceTags,
    verb: tags.listTags,
  })
  .get(`${CURRENT}/tags/resource`, {
    id: 'listResourceTags',
    summary: 'List the tags of a resource',
    query: s.ResourceTagQuery,
    reply: s.ResourceTags,
    errors: ['resource_not_found'],
    verb: taggings.listResourceTags,
  })
