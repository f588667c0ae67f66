//! Tests of limits of logins and users on whole configurations.

use http::header;
use rudy_guard::Limits;
use rudy_service::{Body, Reply};

use super::limits::*;

#[test]
fn users_have_an_allowance_each_and_requests_without_a_login_none() {
    let site = Site::new(
        "[[site]]\nbasic_auth = 'htpasswd'\nrate_limit = { rate = '2/h', by = 'user' }\n\
         [[site.route]]\npath = '/public'\nrespond = 200\nbasic_auth = false\n\
         [[site.route]]\npath = '/*'\nrespond = 200\n",
    );
    let status = |address: &str, fields| site.send(address, "/", fields).status().as_u16();
    assert_eq!([status(A, &[]), status(A, WRONG), status(A, ANN), status(B, ANN)], [401, 401, 200, 200]);
    assert_eq!([status(A, ANN), status(B, ANN), status(A, BOB), status(A, WRONG)], [429, 429, 200, 401]);
    assert_eq!([(); 4].map(|()| site.status(A, "/public")), [200; 4]);
    let status = &site.resources.of::<Limits>().status()[0];
    assert_eq!((status.by.as_str(), status.top[0].key.as_str(), status.top[0].count), ("user", "ann", 2));
}

#[test]
fn a_limit_for_failed_logins_counts_no_others() {
    let site = Site::new(
        "[[site]]\nbasic_auth = 'htpasswd'\nrate_limit = { rate = '3/h', counts = 'failed-logins' }\n\
         [[site.route]]\npath = '/again'\nrewrite = '/'\n[[site.route]]\npath = '/*'\nrespond = 200\n",
    );
    let status = |address: &str, fields| site.send(address, "/again", fields).status().as_u16();
    assert_eq!([(); 5].map(|()| status(A, &[])), [401; 5], "a challenge is no failed login");
    assert_eq!([(); 5].map(|()| status(A, ANN)), [200; 5]);
    assert_eq!([WRONG, INVALID, WRONG, WRONG].map(|fields| status(A, fields)), [401, 401, 401, 429]);
    assert!(site.send(A, "/", WRONG).headers().contains_key(header::RETRY_AFTER));
    // Over the limit, no password is verified, and it makes no difference that one was verified before.
    assert_eq!([status(A, ANN), status(A, BOB), status(B, BOB), status(A, BOB)], [429, 429, 200, 429]);
    assert_eq!(site.over(), [(5, 0)]);
    assert_eq!(site.resources.of::<Limits>().status()[0].max, "3/h failed logins, 3 at once");
}

#[test]
fn over_the_limit_of_failed_logins_a_correct_password_gets_the_response_of_a_wrong_one() {
    for by in ["address", "header.x-key", "path", "host", "all"] {
        let site = Site::new(&format!(
            "[[site]]\nbasic_auth = 'htpasswd'\n\
             rate_limit = {{ rate = '1/h', burst = 2, by = '{by}', counts = 'failed-logins' }}\n\
             [[site.route]]\npath = '/*'\nrespond = {{ body = 'secret' }}\n",
        ));
        for fields in [ANN, WRONG, ANN, WRONG] {
            site.send(A, "/", fields);
        }
        let text = |fields| {
            let response = site.send(A, "/", fields);
            let Body::Bytes(text) = &response.body else { panic!("a page") };
            let names: Vec<_> = response.headers().keys().cloned().collect();
            (response.status().as_u16(), names, String::from_utf8_lossy(text).len())
        };
        // Of a user who is logged in, one who is not, a wrong one, and one that no file can have.
        let all = [ANN, BOB, WRONG, INVALID].map(text);
        assert!(all.iter().all(|response| response.0 == 429 && *response == all[0]), "{by}: {all:?}");
        // Users with another key go on, and those who do not guess on other routes.
        let other = [ANN[0], ("x-key", "other"), ("host", "b.org")];
        let status = site.send(B, "/other", &other).status();
        assert_eq!(status, if by == "all" { 429 } else { 200 }, "{by}");
    }
}

#[test]
fn requests_at_the_same_time_with_a_correct_password_are_not_over_the_limit() {
    let site = Site::new(
        "password_threads = 1\n[[site]]\nbasic_auth = 'htpasswd'\n\
         rate_limit = { rate = '2/h', counts = 'failed-logins' }\n[[site.route]]\npath = '/*'\nrespond = 200\n",
    );
    for (fields, expected) in [(ANN, [200; 8]), (WRONG, [401, 401, 429, 429, 429, 429, 429, 429])] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let statuses: Vec<_> = runtime.block_on(async {
            let replies: Vec<_> = (0..8).map(|_| site.begin(A, "/", fields)).collect();
            let replies: Vec<_> = replies.into_iter().map(|reply| tokio::spawn(reply.response())).collect();
            let mut statuses = Vec::new();
            for reply in replies {
                statuses.push(reply.await.unwrap().status().as_u16());
            }
            statuses
        });
        assert_eq!(statuses, expected);
    }
}

/// Otherwise a client could send guesses until one is answered at once, and give the others up.
#[test]
fn a_guess_that_is_given_up_counts_and_those_beside_it_are_not_answered_at_once() {
    let site = Site::new(
        "[[site]]\nbasic_auth = 'htpasswd'\nrate_limit = { rate = '2/h', counts = 'failed-logins' }\n\
         [[site.route]]\npath = '/*'\nrespond = 200\n",
    );
    assert_eq!(site.send(B, "/", ANN).status(), 200);
    assert!(matches!(site.begin(A, "/", ANN), Reply::Now(_)), "it is remembered");
    let guesses = [site.begin(A, "/", WRONG), site.begin(A, "/", BOB)];
    assert!(matches!(site.begin(A, "/", ANN), Reply::Later(_)), "the result of the guesses decides");
    assert!(matches!(site.begin(B, "/", ANN), Reply::Now(_)));
    drop(guesses);
    for fields in [ANN, BOB, WRONG] {
        assert_eq!(site.send(A, "/", fields).status(), 429);
    }
    assert_eq!(site.send(B, "/", ANN).status(), 200);
}

#[test]
fn guesses_at_the_same_time_are_not_more_than_the_limit() {
    for (more, passed) in [("", 2), (", dry_run = true", 6)] {
        let site = Site::new(&format!(
            "[[site]]\nbasic_auth = 'htpasswd'\n\
             rate_limit = [{{ rate = '2/h', counts = 'failed-logins'{more} }}, '9/h']\n\
             [[site.route]]\npath = '/*'\nrespond = 200\n",
        ));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let statuses: Vec<_> = runtime.block_on(async {
            let replies: Vec<_> =
                (0..6).map(|_| tokio::spawn(site.begin(A, "/", WRONG).response())).collect();
            let mut statuses = Vec::new();
            for reply in replies {
                statuses.push(reply.await.unwrap().status().as_u16());
            }
            statuses
        });
        assert_eq!(statuses.iter().filter(|status| **status == 401).count(), passed, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 6 - passed, "{statuses:?}");
    }
}

#[test]
fn a_limit_of_a_login_that_does_not_exist_is_reported() {
    let by_user = "rate_limit = { rate = '1/h', by = ['user', 'path'] }\n";
    let failed = "rate_limit = { rate = '1/h', counts = 'failed-logins' }\n";
    let authorizer = "forward_auth = 'http://127.0.0.1:1/'\n";
    let unnamed = "forward_auth = { url = 'http://127.0.0.1:1/', copy = 'X-User' }\n";
    let login = "basic_auth = 'htpasswd'\n";
    let of_both = "rate_limit = { rate = '1/h', by = 'user', counts = 'failed-logins' }\n";
    for (of_site, of_route, error) in [
        (by_user, "", Some("counts by user, but there is no login")),
        ("concurrent_requests = { max = 1, by = 'user' }\n", "", Some("counts by user")),
        (login, &format!("basic_auth = false\n{by_user}"), Some("counts by user")),
        (failed, authorizer, Some("counts failed logins, but there is no login")),
        (login, of_both, Some("a failed login has no user")),
        (by_user, authorizer, None),
        (by_user, unnamed, Some("counts by user, but the authorizer names none")),
        (by_user, &format!("{unnamed}{login}"), None),
        (by_user, login, None),
        (login, failed, None),
    ] {
        let text = format!("[[site]]\n{of_site}[[site.route]]\npath = '/*'\nrespond = 200\n{of_route}");
        let errors = Site::try_new(&text).err();
        let is_expected = match (&errors, error) {
            (Some(errors), Some(error)) => errors.contains(error),
            (errors, error) => errors.is_none() && error.is_none(),
        };
        assert!(is_expected, "{text}: {errors:?}");
    }
}

#[test]
fn a_route_with_an_authorizer_that_names_no_user_has_no_limit_by_user() {
    let site = Site::new(
        "[[site]]\nrate_limit = { rate = '1/h', by = 'user' }\n\
         [[site.route]]\npath = '/named'\nrespond = 200\nforward_auth = 'http://127.0.0.1:1/'\n\
         [[site.route]]\npath = '/unnamed'\nrespond = 200\n\
         forward_auth = { url = 'http://127.0.0.1:1/', copy = 'X-User' }\n",
    );
    let limited = site.app.routes().router.handlers().filter(|target| {
        target.steps.iter().flat_map(|step| step.describe()).any(|line| line.contains("by user"))
    });
    assert_eq!(limited.count(), 1);
}
