//! Organizations, members, invitations, API keys.

use control::ports::{Store, StoreError, Written, rows::UserRow};
use domain::{ids::UserId, roles::Role};

use super::fixture::{at_once, bootstrapped};
use crate::common::{Bed, MIGRATE, rows};

pub async fn the_first_organization_is_made_once(bed: &Bed) {
    assert!(bed.db.organizations().await.unwrap().is_empty());
    let admin = bootstrapped(bed).await;
    assert_eq!(
        bed.db.organizations().await.unwrap(),
        [rows::organization(1)]
    );
    assert!(bed.db.user(admin.user_id).await.unwrap() == Some(admin));
    let second = bed
        .db
        .bootstrap(
            &rows::organization(2),
            &rows::user(2, 2, Role::Admin),
            rows::audited(2, 1),
        )
        .await;
    assert_eq!(second.unwrap(), Written::Stale);
    assert_eq!(bed.db.organizations().await.unwrap().len(), 1);
}

pub async fn racing_first_organizations_make_one(bed: &Bed) {
    let results = at_once(bed, 8, |db, number| async move {
        let admin = rows::user(number, number, Role::Admin);
        db.bootstrap(&rows::organization(number), &admin, rows::none())
            .await
            .unwrap()
    })
    .await;
    let winners = results.iter().filter(|r| **r == Written::Done).count();
    assert_eq!(winners, 1);
    assert_eq!(bed.db.organizations().await.unwrap().len(), 1);
}

pub async fn members_are_found_by_address_and_id(bed: &Bed) {
    let admin = bootstrapped(bed).await;
    let mut member = rows::user(1, 2, Role::User);
    member.password_hash = None;
    let done = bed.db.insert_user(&member, None, rows::audited(1, 1)).await;
    assert_eq!(done.unwrap(), Written::Done);
    assert!(bed.db.user_by_email("member2@example.com").await.unwrap() == Some(member.clone()));
    assert!(
        bed.db
            .user_by_email("Member2@example.com")
            .await
            .unwrap()
            .is_none()
    );
    assert!(bed.db.user(rows::id(3)).await.unwrap().is_none());
    let org = admin.organization_id;
    assert!(bed.db.users(org).await.unwrap() == [admin, member]);
    assert!(bed.db.users(rows::id(9)).await.unwrap().is_empty());
}

pub async fn an_address_is_taken_until_its_member_is_removed(bed: &Bed) {
    bootstrapped(bed).await;
    let first = rows::user(1, 2, Role::User);
    let _ = bed
        .db
        .insert_user(&first, None, rows::none())
        .await
        .unwrap();
    let mut second = rows::user(1, 3, Role::User);
    second.email.clone_from(&first.email);
    let refused = bed.db.insert_user(&second, None, rows::audited(1, 5)).await;
    assert!(
        matches!(&refused, Err(StoreError::Constraint(name)) if name == "users_email"),
        "{refused:?}"
    );
    assert!(bed.db.audit(rows::id(1), None, 9).await.unwrap().is_empty());
    let mut removed = first.clone();
    removed.removed_at = Some(rows::at(99));
    removed.session_epoch += 1;
    let done = bed.db.update_user(&first, &removed, rows::none()).await;
    assert_eq!(done.unwrap(), Written::Done);
    assert!(bed.db.user_by_email(&first.email).await.unwrap().is_none());
    let done = bed.db.insert_user(&second, None, rows::none()).await;
    assert_eq!(done.unwrap(), Written::Done);
    assert!(bed.db.user(first.user_id).await.unwrap() == Some(removed));
    assert!(bed.db.user_by_email(&first.email).await.unwrap() == Some(second));
}

pub async fn an_organization_keeps_an_admin(bed: &Bed) {
    let admin = bootstrapped(bed).await;
    let mut demoted = admin.clone();
    demoted.role = Role::Developer;
    let mut removed = admin.clone();
    removed.removed_at = Some(rows::at(5));
    for change in [&demoted, &removed] {
        let refused = bed
            .db
            .update_user(&admin, change, rows::audited(1, 1))
            .await;
        assert_eq!(refused.unwrap(), Written::Stale);
        assert!(bed.db.user(admin.user_id).await.unwrap() == Some(admin.clone()));
        assert!(bed.db.audit(rows::id(1), None, 9).await.unwrap().is_empty());
    }
    let other = rows::user(1, 2, Role::Admin);
    let _ = bed
        .db
        .insert_user(&other, None, rows::none())
        .await
        .unwrap();
    let done = bed.db.update_user(&admin, &demoted, rows::none()).await;
    assert_eq!(done.unwrap(), Written::Done);
}

pub async fn racing_demotions_leave_an_admin(bed: &Bed) {
    bootstrapped(bed).await;
    for number in 2..=6 {
        let admin = rows::user(1, number, Role::Admin);
        let _ = bed
            .db
            .insert_user(&admin, None, rows::none())
            .await
            .unwrap();
    }
    let results = at_once(bed, 6, |db, number| async move {
        let admin = rows::user(1, number + 1, Role::Admin);
        let mut demoted = admin.clone();
        demoted.role = Role::User;
        db.update_user(&admin, &demoted, rows::none())
            .await
            .unwrap()
    })
    .await;
    let stale = results.iter().filter(|r| **r == Written::Stale).count();
    assert_eq!(stale, 1);
}

pub async fn an_update_of_an_older_epoch_is_stale(bed: &Bed) {
    let admin = bootstrapped(bed).await;
    let mut next = admin.clone();
    next.session_epoch = 2;
    next.password_hash = Some("$argon2id$other".to_owned());
    let done = bed.db.update_user(&admin, &next, rows::none()).await;
    assert_eq!(done.unwrap(), Written::Done);
    let again = bed.db.update_user(&admin, &admin, rows::none()).await;
    assert_eq!(again.unwrap(), Written::Stale);
    assert!(bed.db.user(admin.user_id).await.unwrap() == Some(next));
}

pub async fn an_update_of_a_member_that_changed_in_anything_is_stale(bed: &Bed) {
    bootstrapped(bed).await;
    let mut row = rows::user(1, 2, Role::Developer);
    let done = bed.db.insert_user(&row, None, rows::none()).await;
    assert_eq!(done.unwrap(), Written::Done);
    let changes: [fn(&mut UserRow); 7] = [
        |row| row.role = Role::User,
        |row| row.display_name = "Somebody else".to_owned(),
        |row| row.email = "other@example.com".to_owned(),
        |row| row.password_hash = None,
        |row| row.password_hash = Some("$argon2id$new".to_owned()),
        |row| row.session_epoch += 1,
        |row| row.removed_at = Some(rows::at(7)),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let before = row.clone();
        change(&mut row);
        let done = bed.db.update_user(&before, &row, rows::none()).await;
        assert_eq!(done.unwrap(), Written::Done, "{number}");
        let mut late = before.clone();
        late.role = Role::Admin;
        let refused = bed
            .db
            .update_user(&before, &late, rows::audited(1, 1))
            .await;
        assert_eq!(refused.unwrap(), Written::Stale, "{number}");
        let kept = bed.db.user(row.user_id).await.unwrap();
        assert!(kept.as_ref() == Some(&row), "{number}");
        assert!(bed.db.audit(rows::id(1), None, 9).await.unwrap().is_empty());
    }
}

pub async fn an_invitation_is_accepted_once_and_in_time(bed: &Bed) {
    let admin = bootstrapped(bed).await;
    let invitation = rows::invitation(1, 10, admin.user_id);
    bed.db
        .insert_invitation(&invitation, rows::none())
        .await
        .unwrap();
    let accept = |number: u64, seconds: i64| {
        let user = rows::user(1, number, Role::Developer);
        let id = invitation.invitation_id;
        async move {
            bed.db
                .insert_user(&user, Some((id, rows::at(seconds))), rows::none())
                .await
                .unwrap()
        }
    };
    assert_eq!(accept(2, 10_000).await, Written::Stale, "expired by then");
    assert_eq!(accept(2, 9_999).await, Written::Done);
    assert_eq!(accept(3, 9_999).await, Written::Stale, "closed by then");
    assert!(bed.db.user(rows::id(3)).await.unwrap().is_none());
    let found = bed.db.invitation_by_token("hash10").await.unwrap().unwrap();
    assert_eq!(found.closed_at, Some(rows::at(9_999)));
}

pub async fn invitations_are_listed_until_closed(bed: &Bed) {
    let admin = bootstrapped(bed).await;
    let made = [11, 12, 13].map(|number| rows::invitation(1, number, admin.user_id));
    for (number, invitation) in (1..).zip(&made) {
        bed.db
            .insert_invitation(invitation, rows::audited(1, number))
            .await
            .unwrap();
    }
    let org = admin.organization_id;
    let close = |number: u64| {
        bed.db
            .close_invitation(org, rows::id(number), rows::at(50), rows::none())
    };
    assert_eq!(close(12).await.unwrap(), Written::Done);
    assert_eq!(close(12).await.unwrap(), Written::Stale);
    assert_eq!(close(99).await.unwrap(), Written::Stale);
    let other = bed
        .db
        .close_invitation(rows::id(2), rows::id(11), rows::at(50), rows::none())
        .await;
    assert_eq!(other.unwrap(), Written::Stale, "another organization's");
    assert_eq!(
        bed.db.invitations(org).await.unwrap(),
        [made[2].clone(), made[0].clone()]
    );
    assert_eq!(
        bed.db.invitation_by_token("hash11").await.unwrap(),
        Some(made[0].clone())
    );
    assert_eq!(bed.db.invitation_by_token("nothing").await.unwrap(), None);
}

pub async fn api_keys_live_until_revoked(bed: &Bed) {
    let admin = bootstrapped(bed).await;
    let member = rows::user(1, 2, Role::User);
    let _ = bed
        .db
        .insert_user(&member, None, rows::none())
        .await
        .unwrap();
    let first = rows::api_key(1, 20, admin.user_id);
    let mut second = rows::api_key(1, 21, member.user_id);
    second.expires_at = Some(rows::at(77));
    for key in [&first, &second] {
        bed.db.insert_api_key(key, rows::none()).await.unwrap();
    }
    let org = admin.organization_id;
    let keys = |user: Option<UserId>| bed.db.api_keys(org, user);
    assert_eq!(keys(None).await.unwrap(), [second.clone(), first.clone()]);
    assert_eq!(
        keys(Some(admin.user_id)).await.unwrap(),
        std::slice::from_ref(&first)
    );
    bed.db
        .touch_api_key(first.api_key_id, rows::at(30))
        .await
        .unwrap();
    bed.db
        .touch_api_key(first.api_key_id, rows::at(20))
        .await
        .unwrap();
    let used = bed.db.api_key_by_hash("secret20").await.unwrap().unwrap();
    assert_eq!(
        used.key.last_used_at,
        Some(rows::at(30)),
        "uses only move forward"
    );
    assert_eq!(
        (used.email, used.owner_role, used.owner_removed_at),
        (admin.email.clone(), admin.role, None)
    );
    let revoke = || {
        bed.db
            .revoke_api_key(org, first.api_key_id, rows::at(40), rows::none())
    };
    assert_eq!(revoke().await.unwrap(), Written::Done);
    assert_eq!(revoke().await.unwrap(), Written::Stale);
    assert_eq!(keys(None).await.unwrap(), [second]);
    let revoked = bed.db.api_key_by_hash("secret20").await.unwrap().unwrap();
    assert_eq!(revoked.key.revoked_at, Some(rows::at(40)));
    assert!(bed.db.api_key_by_hash("nothing").await.unwrap().is_none());
    let mut twin = rows::api_key(1, 22, admin.user_id);
    twin.secret_hash = "secret21".to_owned();
    let refused = bed.db.insert_api_key(&twin, rows::none()).await;
    assert!(
        matches!(&refused, Err(StoreError::Constraint(name)) if name == "api_keys_secret_hash"),
        "{refused:?}"
    );
    twin.secret_hash = "other".to_owned();
    twin.api_key_id = rows::id(21);
    let refused = bed.db.insert_api_key(&twin, rows::none()).await;
    assert!(
        matches!(&refused, Err(StoreError::Constraint(name)) if name == "api_keys_pkey"),
        "{refused:?}"
    );
}

pub async fn a_foreign_key_names_itself(bed: &Bed) {
    let refused = bed
        .db
        .insert_user(&rows::user(1, 1, Role::User), None, rows::none())
        .await;
    assert!(
        matches!(&refused, Err(StoreError::Constraint(name)) if name == "foreign_key"),
        "{refused:?}"
    );
}

pub async fn a_member_that_cannot_be_read_is_named(bed: &Bed) {
    let admin = bootstrapped(bed).await;
    bed.raw("UPDATE users SET role = 'emperor'").await;
    let Err(error) = bed.db.user(admin.user_id).await else {
        panic!("an unknown role was read");
    };
    assert_eq!(
        error.to_string(),
        "users.role of usr_019a0000000070008000000000000001 cannot be read: \
         not a role: use admin, developer or user"
    );
}

pub async fn what_another_pool_changes_of_a_key_or_its_owner_counts_at_once(bed: &Bed) {
    let admin = bootstrapped(bed).await;
    let owner = rows::user(1, 2, Role::Developer);
    let _ = bed
        .db
        .insert_user(&owner, None, rows::none())
        .await
        .unwrap();
    let key = rows::api_key(1, 20, owner.user_id);
    bed.db.insert_api_key(&key, rows::none()).await.unwrap();
    let other = store::open(&bed.url, MIGRATE).await.unwrap();
    let read = || async { bed.db.api_key_by_hash("secret20").await.unwrap().unwrap() };
    let mut owner = owner;
    for role in [Role::User, Role::Admin, Role::Developer] {
        let before = owner.clone();
        owner.role = role;
        let done = other.update_user(&before, &owner, rows::none()).await;
        assert_eq!(done.unwrap(), Written::Done);
        for _ in 0..3 {
            assert_eq!(read().await.owner_role, role);
        }
    }
    other
        .touch_api_key(key.api_key_id, rows::at(30))
        .await
        .unwrap();
    for _ in 0..3 {
        assert_eq!(read().await.key.last_used_at, Some(rows::at(30)));
    }
    let org = admin.organization_id;
    let done = other
        .revoke_api_key(org, key.api_key_id, rows::at(40), rows::none())
        .await;
    assert_eq!(done.unwrap(), Written::Done);
    assert_eq!(read().await.key.revoked_at, Some(rows::at(40)));
    let before = owner.clone();
    owner.removed_at = Some(rows::at(50));
    let done = other.update_user(&before, &owner, rows::none()).await;
    assert_eq!(done.unwrap(), Written::Done);
    assert_eq!(read().await.owner_removed_at, Some(rows::at(50)));
    other.close().await;
}
